"""`tenure import kubernetes`: each CronJob becomes a schedule that runs its container."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tenure.cli.errors import Failed
from tenure.cli.imports.candidates import FOR_REVIEW, Found
from tenure.cli.imports.delivery import Delivery, of_delivery
from tenure.errors import InvalidTrigger
from tenure.triggers import Trigger, cron, parse

TASK = "container"
_OVERLAP = {"Allow": "allow", "Forbid": "skip"}
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)\s+")
_STUB = '''\
"""What the CronJobs run. Say here how: call your code, or start the container."""

from tenure import Tasks

tasks = Tasks()


@tasks.task
def container(image: str, command: list[str], args: list[str]) -> None:
    raise NotImplementedError(f"say how to run {image} {command} {args}")
'''


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@of_delivery
def kubernetes(path: str, delivery: Delivery) -> None:
    """Make schedules of CronJob manifests, paused for review.

    FILE is JSON, or YAML if PyYAML is installed: one manifest, several, or a list as kubectl prints
    it. Each runs the task `container` with its image, command and arguments; --stub writes that
    task, for you to fill in.

    \b
    Examples:
      kubectl get cronjobs -o json > cronjobs.json
      tenure import kubernetes cronjobs.json --dry-run
      tenure import kubernetes cronjobs.json \\
        --write schedules.jsonl --stub containers.py
    """
    found = [_entry(manifest) for manifest in _manifests(_read(Path(path)))]
    if not found:
        raise Failed(f"{path} has no CronJob.")
    delivery.deliver(found, _stub)


def _stub(found: Sequence[Found]) -> str:
    return _STUB


def _read(path: Path) -> list[Any]:
    """The documents of a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} cannot be read: {error}.") from error
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError) as wrong:
        try:
            import yaml
        except ImportError:
            raise Failed(
                f"{path} is not JSON ({wrong}). For YAML, install PyYAML; or print JSON with"
                " `kubectl get cronjobs -o json`."
            ) from None
        try:
            return list(yaml.safe_load_all(text))
        except yaml.YAMLError as error:
            said = " ".join(str(error).split())
            raise Failed(f"{path} is neither JSON nor YAML: {said}.") from error


def _manifests(documents: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for document in documents:
        if isinstance(document, list):
            yield from _manifests(document)
        elif isinstance(document, dict) and document.get("kind") == "CronJob":
            yield document
        elif isinstance(document, dict) and isinstance(document.get("items"), list):
            yield from _manifests(document["items"])


def _entry(manifest: dict[str, Any]) -> Found:
    about = manifest.get("metadata") or {}
    name = "/".join(str(part) for part in (about.get("namespace"), about.get("name")) if part)
    try:
        return _read_entry(name, manifest["spec"])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        wrong = str(error) if isinstance(error, InvalidTrigger) else f"{error!r} in its manifest"
        return Found(name or "a CronJob", reason=wrong)


def _read_entry(name: str, spec: dict[str, Any]) -> Found:
    notes: list[str] = []
    trigger = _trigger(spec["schedule"], spec.get("timeZone"), notes)
    wanted = spec.get("concurrencyPolicy", "Allow")
    if wanted not in _OVERLAP:
        return Found(
            name,
            reason=f"concurrencyPolicy {wanted} ends the run before; Tenure lets a run end. Choose"
            " Forbid or Allow in the manifest",
        )
    job = spec["jobTemplate"]["spec"]
    pod = job["template"]["spec"]
    containers = pod["containers"]
    if len(containers) != 1:
        return Found(name, reason=f"it has {len(containers)} containers, and a task runs one")
    if pod.get("initContainers"):
        return Found(name, reason="it has initContainers: a task has to run them itself")
    deadline = spec.get("startingDeadlineSeconds")
    entry: dict[str, Any] = {
        "name": name,
        "trigger": trigger,
        "task": TASK,
        "kwargs": {
            "image": containers[0]["image"],
            "command": list(containers[0].get("command") or ()),
            "args": list(containers[0].get("args") or ()),
        },
        "overlap": _OVERLAP[wanted],
        "retries": job.get("backoffLimit", 6),
        "paused": "it was suspended" if spec.get("suspend") else FOR_REVIEW,
    }
    if deadline is not None:
        entry |= {"catch_up": "none", "catch_up_grace": deadline}
    if job.get("activeDeadlineSeconds") is not None:
        entry["timeout"] = job["activeDeadlineSeconds"]
        notes.append("activeDeadlineSeconds is for all attempts there, and for each one here")
    return Found(name, entry, notes=tuple(notes))


def _trigger(schedule: str, zone: str | None, notes: list[str]) -> Trigger:
    within = _ZONE.match(schedule)
    if within is not None:
        zone, schedule = within[1], schedule[within.end() :]
    if zone is None:
        zone = "UTC"
        notes.append("it names no timeZone: taken as UTC, the controller's own in most clusters")
    if schedule.startswith("@every "):
        notes.append("@every counts from when the schedule is added, as there from its creation")
        return parse(schedule[1:])
    return cron(schedule.replace("?", "*"), tz=zone)
