"""Leading in the background: a campaign for a lease, and what is told when it is won or lost."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from tenure.errors import ConfigError
from tenure.leases.keeping import Keeping
from tenure.leases.lease import AsyncLease, HeldLease, Lease
from tenure.node.keeper import Held
from tenure.process.threads import Threads

if TYPE_CHECKING:
    from tenure.leases.campaign import Campaign
    from tenure.leases.runtime import Runtime

L = TypeVar("L", bound=HeldLease)


class BaseLeadership(Generic[L]):
    """A campaign in the background. `is_leader` is true for this instant only."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        keeping: Keeping,
        made: Callable[[Held], L],
        on_start: Callable[[L], Any] | None = None,
        on_stop: Callable[[], Any] | None = None,
    ) -> None:
        self.name = name
        self._runtime = runtime
        self._keeping = keeping
        self._made = made
        self._on_start = on_start
        self._on_stop = on_stop
        self._told = False
        self._begun: Campaign | None = None
        self._threads = Threads(f"tenure-lead-{name}")
        self._user_loop = self._find_loop()

    @property
    def is_leader(self) -> bool:
        return self._campaign is not None and self._campaign.elector.leading is not None

    @property
    def _campaign(self) -> Campaign | None:
        """This process's own: a forked child neither leads nor steps down for its parent."""
        return None if self._begun is None or self._begun.inherited else self._begun

    @property
    def lease(self) -> L | None:
        """The lease, while this process leads."""
        held = self._campaign.elector.held if self._campaign is not None else None
        return self._made(held) if held is not None and held.trusted else None

    async def __aenter__(self) -> Self:
        try:
            await self._runtime.call_async(self._start())
        except BaseException:
            self._undo()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runtime.call_async(self._stop())

    def _undo(self) -> None:
        """Interrupted before the caller knew that it had begun: nobody would ever stop it."""
        self._runtime.soon(lambda: asyncio.ensure_future(self._stop()))

    async def _start(self) -> None:
        if self._campaign is None:
            self._told, self._threads = False, Threads(f"tenure-lead-{self.name}")
            self._begun = await self._runtime.campaign(self.name, self._keeping, self._changed)

    async def _stop(self) -> None:
        campaign, self._begun = self._campaign, None
        if campaign is None:
            return
        self._changed()
        # The callback first: the next leader must not meet work that is still going on.
        await self._threads.call(lambda: None)
        await campaign.abandon()
        self._threads.close()

    def _changed(self) -> None:
        leading = self.is_leader
        if leading == self._told:
            return
        self._told = leading
        if leading:
            self._runtime.acquired()
        if leading and self._on_start is not None:
            self._tell(self._on_start, self.lease)
        elif not leading and self._on_stop is not None:
            self._tell(self._on_stop)

    def _tell(self, callback: Callable[..., Any], *args: Any) -> None:
        loop = self._user_loop

        def call() -> None:
            result = callback(*args)
            if inspect.isawaitable(result):
                assert loop is not None
                asyncio.run_coroutine_threadsafe(_await(result), loop).result()

        self._threads.submit(lambda: self._runtime.quietly(call))

    def _find_loop(self) -> asyncio.AbstractEventLoop | None:
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            callbacks = (self._on_start, self._on_stop)
            if any(inspect.iscoroutinefunction(callback) for callback in callbacks):
                raise ConfigError(
                    "coroutine callbacks need a running event loop: call lead() from a coroutine."
                ) from None
            return None


class Leadership(BaseLeadership[Lease]):
    """A campaign in the background. `is_leader` is true for this instant only."""

    def start(self) -> Self:
        try:
            self._runtime.call(self._start())
        except BaseException:
            self._undo()
            raise
        return self

    def stop(self) -> None:
        """Step down and end the campaign; `on_stop` is called if this process led."""
        self._runtime.call(self._stop())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()


class AsyncLeadership(BaseLeadership[AsyncLease]):
    """A campaign in the background, for coroutines."""

    async def start(self) -> Self:
        return await self.__aenter__()

    async def stop(self) -> None:
        """Step down and end the campaign; `on_stop` is called if this process led."""
        await self.__aexit__()


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
