"""One history from one seed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Collection
from dataclasses import replace
from random import Random

from tenure.node.node import Node
from tenure.settings import Settings
from tenure.tasks.registry import Tasks
from tenure.testing.simulation.chaos import Chaos
from tenure.testing.simulation.control import CONTROL, Controller
from tenure.testing.simulation.faults import KINDS, Plan, draw, roll_out
from tenure.testing.simulation.history import END, TRUST, History
from tenure.testing.simulation.loop import SimulationLoop
from tenure.testing.simulation.memory import InMemory
from tenure.testing.simulation.network import Network, Weather
from tenure.testing.simulation.node import BuildNode, SimulatedNode
from tenure.testing.simulation.publishing import Publisher, Reader
from tenure.testing.simulation.relaying import Broker, Replayer
from tenure.testing.simulation.sqlite import OnSQLite
from tenure.testing.simulation.store import BuildMedium, SimulatedStore, StoreClock
from tenure.testing.simulation.trust import Trust
from tenure.testing.simulation.workload import Customer, Operator, Workload, random_editions

SETTINGS = Settings(
    ttl=2.0,
    concurrency=4,
    heartbeat=0.6,
    poll=0.8,
    hint_every=0.8,
    idle_poll=2.0,
    reap_every=1.0,
    rollout_poll=0.5,
    rollout_grace=1.0,
    grace=1.0,
    backoff=0.2,
    jump_limit=5.0,
    jump_hold=3.0,
    max_crashes=2,
)
"""Short times, so that much happens in half a minute."""

STORES: dict[str, BuildMedium] = {"memory": InMemory, "sqlite": OnSQLite}


def simulate(
    seed: int,
    *,
    nodes: int | None = None,
    faults: Collection[str] = (*KINDS, CONTROL),
    weather: Weather | None = None,
    workload: Workload = random_editions,
    settings: Settings | None = None,
    build_node: BuildNode = Node,
    store: str | BuildMedium = "memory",
    plan: Plan | None = None,
) -> History:
    """The history of a cluster with all the faults that this seed holds. No real time passes.

    `check` says whether it kept the promises. `workload` makes the tasks, yours for example;
    `faults` names the kinds of faults that may happen, `weather` says how unreliable the network
    is meanwhile; both are drawn from the seed unless given. `store` is "memory" or "sqlite".
    `plan` says all that goes wrong, and when; it is drawn from the seed unless given. With a plan
    of yours `faults` says nothing: nobody cancels or retries runs, and nothing is rolled out.
    """
    collecting = gc.isenabled()
    # A history is short and makes little garbage that is not freed at once: looking for it over
    # and over costs a fifth of the time, looking once does not.
    gc.disable()
    try:
        build = STORES[store] if isinstance(store, str) else store
        embedded = isinstance(build, type) and issubclass(build, OnSQLite)
        if plan is None:
            plan = draw(_source(seed, "plan"), nodes, faults, embedded=embedded)
        else:
            faults = ()
        if weather is not None:
            plan.weather = weather
        if settings is None:
            settings = SETTINGS
            if plan.retention is not None:
                settings = replace(settings, retention=plan.retention)
        return Simulation(seed, plan, faults, workload, settings, build_node, build).run()
    finally:
        gc.collect(0)
        if collecting:
            gc.enable()


_PARTS = ("network", "tasks", "edits", "chaos", "editions", "enqueues", "control", "events")
RELAYED = 0.4
"""In so many histories events are relayed."""
LAST_RUNS = 8.0
"""So many seconds before the end the last run is enqueued."""


def _source(seed: int, part: str) -> Random:
    """One source per part: a draw more in one of them does not change what happens in others."""
    return Random(f"{part} {seed}")


class Simulation:
    """Puts the parts together."""

    def __init__(
        self,
        seed: int,
        plan: Plan,
        faults: Collection[str],
        workload: Workload,
        settings: Settings,
        build_node: BuildNode,
        build_medium: BuildMedium,
    ) -> None:
        sources = [_source(seed, part) for part in _PARTS]
        network, tasks, edits, chaos, rollouts, enqueues, control, events = sources
        self.plan = plan
        self.loop = SimulationLoop()
        clock = StoreClock(self.loop)
        medium = build_medium(clock, plan.hints)
        self.history = History(seed, settings, medium.name, plan.quiet_from, plan.until)
        self.store = SimulatedStore(self.loop, self.history, clock, medium)
        self.network = Network(self.loop, self.store, self.history, network, self.plan.embedded)
        self._settings = settings
        made = workload(tasks)
        self._editions = [made] if isinstance(made, Tasks) else list(made)
        self._rollouts: list[tuple[float, int]] = []
        if len(self._editions) > 1 and "stop" in faults:
            self._rollouts = roll_out(rollouts, plan, len(self._editions))
        self._build_node = build_node
        self._starts = 0
        editor = Operator(self.loop, self.network, self.history, self._editions, settings, edits)
        around = self.loop, self.network, self.history
        self._customer = Customer(*around, self._editions[0], settings, enqueues)
        self._publisher = Publisher(*around, settings, events)
        self._reader = Reader(self.loop, self.network, settings, events)
        self._broker: Broker | None = None
        relays = _source(seed, "relays")
        if workload is random_editions and relays.random() < RELAYED:
            self._broker = Broker(self.loop, self.history, plan.quiet_from, relays)
            self._replayer = Replayer(*around, settings, relays)
        self._enqueues = workload is random_editions  # whether yours can be run so, who knows
        self.chaos = Chaos(
            self.plan,
            self.loop,
            self.network,
            self.store,
            self.history,
            editor,
            self._new_node,
            chaos,
        )
        if CONTROL in faults:
            controller = Controller(self.loop, self.network, self.history, settings, control)
            controller.begin(plan.quiet_from)
        self._trust = Trust(self.loop, self.chaos.nodes)
        self.store.observe = self._observe

    def run(self) -> History:
        try:
            self.loop.run_until_complete(self._main())
        finally:
            self.history.closed = True
            self.loop.close()
            self.store.medium.close()
        return self.history

    async def _main(self) -> None:
        self.chaos.begin()
        if self._enqueues:
            self._customer.begin(self.plan.until - LAST_RUNS)
            self._publisher.begin(self.plan.until - LAST_RUNS)
            self._reader.begin()
        if self._broker is not None:
            self._replayer.begin()
        await asyncio.sleep(self.plan.until)  # noqa: TID251 - virtual
        self._observe()
        self.history.add(self.loop.now, "*", END, "schedules", self.store.medium.state())
        living = {n.name: n.holders for n in self.chaos.nodes if n.alive}
        self.history.add(self.loop.now, "*", END, "living", living)
        code = {n.name: n.code for n in self.chaos.nodes}
        self.history.add(self.loop.now, "*", END, "code", code)
        self.history.add(self.loop.now, "*", END, "clock", self.store.clock.now())

    def _new_node(self, place: int) -> SimulatedNode:
        self._starts += 1
        return SimulatedNode(
            f"{'abcdefgh'[place % 8]}{self._starts}",
            self.loop,
            self.network,
            self.history,
            self._edition(),
            self._settings,
            rate=self.plan.rates[place],
            origin=1_000.0 * self._starts,
            wall_offset=self.plan.wall_offsets[place],
            guard=self.plan.guard,
            build=self._build_node,
            observe=self._observe,
            broker=self._broker,
        )

    def _edition(self) -> Tasks:
        """The code that a node starts with at this time."""
        begun = [edition for at, edition in self._rollouts if at <= self.loop.now]
        return self._editions[begun[-1] if begun else 0]

    def _observe(self) -> None:
        """Note who trusts which lease, whenever that has changed."""
        if self._trust.look():
            self.history.add(self.loop.now, "*", TRUST, "trusted", self._trust.all())
