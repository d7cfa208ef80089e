"""A conversation with a store, written once for two ways of having it: awaited, or blocking.

The conversation is a generator: it yields questions, is sent the answers, and returns the result.
It does no I/O itself; its caller decides how to ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")


async def awaited(talk: Generator[Q, A, R], ask: Callable[[Q], Awaitable[A]]) -> R:
    try:
        question = next(talk)
        while True:
            question = talk.send(await ask(question))
    except StopIteration as end:
        result: R = end.value
        return result


def blocking(talk: Generator[Q, A, R], ask: Callable[[Q], A]) -> R:
    try:
        question = next(talk)
        while True:
            question = talk.send(ask(question))
    except StopIteration as end:
        result: R = end.value
        return result
