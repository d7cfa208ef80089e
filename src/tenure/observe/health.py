"""Is this node well? Three questions, and what they must not depend on.

- *Alive*: do Tenure's own loops advance? An orchestrator restarts a process that is not, so nothing
  that a restart cannot mend may count: not a store that is away, not a standby. Hung runs count
  when they have had all slots for a while, and only if the process just runs the node: nothing else
  gives the slots back, but one job must not take down an application that does other work.
- *Ready*: has it joined, does its store answer, has it a slot? A store that is away for a moment is
  no reason: it is away for all nodes, and they would all become unready at once.
- *Leads*: does this node fire schedules, at this instant?
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tenure.observe.watch import Watch

LOOP_HUNG = 10.0
"""In seconds, and at least a ttl: by then another node has taken over."""
STEP_HUNG = 60.0
"""In seconds, and at least four ttls: every call of a step ends within a third of one."""
SLOTS_HUNG = 60.0
"""In seconds, and at least four ttls: a run that was told to end may still do so."""
STORE_AWAY = 60.0
"""In seconds, and at least four ttls: a store that restarts or fails over is back by then."""
TTLS = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """Yes or no, and why not."""

    ok: bool
    reasons: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.ok

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"ok": self.ok, **self.about}
        if self.reasons:
            told["reasons"] = list(self.reasons)
        return told


def alive(watch: Watch) -> Answer:
    """Is there nothing that a restart would mend? True as well for one that is not started or has
    ended."""
    subject = watch.subject
    if subject is None or not watch.runs:
        return _answer(watch, [])
    ttl, reasons = subject.around.settings.ttl, []
    silent = watch.now - watch.beat_at
    if silent > max(LOOP_HUNG, ttl):
        reasons.append(f"Tenure's own loop has not advanced for {silent:.0f} s")
    node = watch.node
    if node is not None and watch.state == "joined":
        taken = node.hung.full_for
        if subject.alone and taken > max(SLOTS_HUNG, TTLS * ttl):
            reasons.append(f"hung runs have had all its slots for {taken:.0f} s")
        reasons += [f"the {each.label} has ended" for each in node.services if each.has_ended]
        for service in (node.keeper, node.elector, node.ticker, node.worker):
            if service.stepping > max(STEP_HUNG, TTLS * ttl):
                reasons.append(f"the {service.label} has hung for {service.stepping:.0f} s")
    return _answer(watch, reasons)


def ready(watch: Watch) -> Answer:
    """Is this node a part of the cluster that can do its work?"""
    subject, node = watch.subject, watch.node
    if subject is None or node is None or watch.state != "joined":
        at = f", at the stage {watch.stage}" if watch.state == "starting" and watch.stage else ""
        return _answer(watch, [f"{watch.state}{at}"])
    reasons = list(alive(watch).reasons)
    if not node.presence.joined:
        reasons.append("it has not joined the cluster yet")
    limit = max(STORE_AWAY, TTLS * subject.around.settings.ttl)
    for part, seconds in watch.failing.items():
        if seconds > limit:
            reasons.append(f"the store of its {part} has not answered for {seconds:.0f} s")
    if not node.ready:
        reasons.append("hung runs have taken all its slots")
    return _answer(watch, reasons)


def leads(watch: Watch) -> Answer:
    """Does this node lead, at this instant?"""
    node = watch.node
    fence = None if node is None else node.elector.leading
    if node is None or fence is None:
        return _answer(watch, ["this node does not lead"])
    return _answer(watch, [], term=fence.term)


def _answer(watch: Watch, reasons: list[str], **more: Any) -> Answer:
    about: dict[str, Any] = {"state": watch.state}
    if watch.node is not None:
        about["node"] = watch.node.id
    return Answer(not reasons, tuple(reasons), {**about, **more})
