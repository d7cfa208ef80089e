"""Signals that ask for an end."""

from __future__ import annotations

import os
import signal

import pytest

from tenure.process.signals import Signals


def test_signal_that_came_before_the_wait_ends_it() -> None:
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        signals.wait()


def test_second_signal_insists() -> None:
    with Signals():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with Signals():
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
