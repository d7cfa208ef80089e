"""What `tenure doctor` says about damaged keys: which, how, and what to do about them. Nothing here
changes anything, and no stored value makes it fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tenure.backends.address import Address, quoted
from tenure.backends.redis.client import bounded
from tenure.backends.redis.keys import PAGE, Keys, script, scripts
from tenure.backends.redis.records import UNREADABLE, Records, past, told
from tenure.errors import StoreError
from tenure.model import Finding, Severity
from tenure.printable import brief
from tenure.process.clock import Clock
from tenure.process.identity import clock_domain

CHECK = "Redis records"
MOST_NAMED = 20
SCANS, SCANNED = 50, 10_000
"""How many calls search for leases that are not on the list, and how many keys each reads."""
_MENDED = "The next process that uses it replaces it; nothing needs to be done."


async def check(client: Any, keys: Keys, at: Address, clock: Clock) -> list[Finding]:
    """What is wrong with the keys of this namespace; one finding that all is well if nothing is."""
    listed, unlisted = await _rows(client, keys, clock)
    damaged = [
        _of_lease(name, row["damage"], at)
        for name, row in sorted((listed | unlisted).items())
        if row["damage"]
    ]
    if len(damaged) > MOST_NAMED:
        more = Finding(
            CHECK,
            Severity.PROBLEM,
            f"{len(damaged) - MOST_NAMED:,} more leases are damaged",
            "Repair those above, then check again.",
        )
        damaged = [*damaged[:MOST_NAMED], more]
    damaged += _of_unlisted([n for n, row in unlisted.items() if not row["damage"]], keys, at)
    damaged += await _of_other_keys(client, keys)
    leases = len(listed)
    text = f"{leases:,} lease{'' if leases == 1 else 's'}, none damaged"
    return damaged or [Finding(CHECK, Severity.OK, text)]


Rows = dict[str, dict[str, Any]]


async def _rows(client: Any, keys: Keys, clock: Clock) -> tuple[Rows, Rows]:
    """The leases on the list of names, and those that are not on it."""
    records, texts = Records(clock_domain(), clock), scripts()
    page, read = client.register_script(texts["page"]), client.register_script(texts["read"])
    listed: Rows = {}
    unlisted: Rows = {}
    after = ""
    while True:
        asked = keys.page("", after, PAGE)
        found = records.page(await bounded(page(keys=[keys.names], args=[asked])))
        listed |= {row["name"]: row for row in found.rows}
        after = found.after
        if not after:
            break
    for name in sorted(await _scanned(client, keys) - listed.keys())[:PAGE]:
        now, *stored = await bounded(read(keys=[keys.lease(name)], args=[]))
        row = records.row(name, stored, now)
        unlisted |= {} if row is None else {name: row}
    return listed, unlisted


async def _scanned(client: Any, keys: Keys) -> set[str]:
    """The names in the leases' keys, as far as `SCANS` calls find them."""
    begin = keys.lease("")
    pattern = "".join(f"[{c}]" if c in "*?" else f"\\{c}" if c in "[]\\" else c for c in begin)
    return {key.removeprefix(begin) for key in await scanned(client, f"{pattern}*")}


async def scanned(client: Any, pattern: str) -> set[str]:
    """The keys of that pattern, as far as `SCANS` calls find them."""
    keys: set[str] = set()
    cursor: Any = 0
    try:
        for _ in range(SCANS):
            cursor, found = await bounded(client.scan(cursor, match=pattern, count=SCANNED))
            keys |= set(map(str, found))
            if not int(cursor):
                break
    except StoreError:
        pass  # this user may not scan
    return keys


def _of_unlisted(names: list[str], keys: Keys, at: Address) -> Iterator[Finding]:
    if names:
        told = ", ".join(map(brief, names[:5])) + (" and more" if len(names) > 5 else "")
        yield Finding(
            CHECK,
            Severity.WARNING,
            f"not on the list of names ({keys.names}), {len(names):,} in all: {told}",
            "Leases with a live holder are listed again at its next renewal. End the others:"
            f" `{at.command('leases', 'evict', name=names[0])}`",
        )


def _of_lease(name: str, damage: Mapping[str, str], at: Address) -> Finding:
    evict = f"`{at.command('leases', 'evict', name=name)}`"
    if "holder" in damage:
        return Finding(
            CHECK,
            Severity.PROBLEM,
            f"lease {brief(name)} cannot be read: its key is of another type, or its holder is"
            f" missing or not text. {UNREADABLE.partition(':')[0].capitalize()} holds it",
            f"It is given to the next that asks: at once if it is leadership, otherwise when it"
            f" expires, or after a day if that cannot be read either. To end it now: {evict}",
        )
    return Finding(
        CHECK,
        Severity.PROBLEM,
        f"lease {brief(name)} is damaged: {told(damage)}",
        "A holder that lives mends most of it with its next renewal; look again in a moment. If"
        f" this stays: {evict}",
    )


async def _of_other_keys(client: Any, keys: Keys) -> list[Finding]:
    found: list[Finding] = []
    damage = client.register_script(script("stored") + script("damage"))
    ours = [keys.names, keys.own_history, keys.history, keys.server]
    try:
        said = await bounded(damage(keys=ours, args=[]))
    except StoreError as error:
        return [Finding(CHECK, Severity.WARNING, f"the other keys were not checked: {error}")]
    names, long_names, own, others, server = said
    if not int(names):
        found.append(_other_type(keys.names, "the list of names"))
    elif int(long_names):
        found.append(
            Finding(
                CHECK,
                Severity.WARNING,
                f"{keys.names} has {long_names} entries that are too long for names",
                f"Nobody reads them. If nothing else is in it: DEL {quoted(keys.names)}; those"
                " that live put their names back.",
            )
        )
    for key, lines in ((keys.own_history, own), (keys.history, others)):
        found += _of_history(key, lines)
    if isinstance(server, int):
        found.append(_other_type(keys.server, "what is known of this server"))
    else:
        found += _of_server(keys.server, dict(zip(server[::2], server[1::2], strict=True)))
    return found


def _other_type(key: str, what: str) -> Finding:
    return Finding(CHECK, Severity.PROBLEM, f"{key} ({what}) is of another type than ours", _MENDED)


def _of_history(key: str, lines: Any) -> Iterator[Finding]:
    if isinstance(lines, int):
        yield _other_type(key, "past holders")
    elif len(lines) > (good := len(list(past(lines)))):
        yield Finding(
            CHECK,
            Severity.WARNING,
            f"{key} has {len(lines) - good:,} lines that cannot be read",
            "They are left out, and go when they are the oldest. Nothing depends on them.",
        )


def _of_server(key: str, damage: Mapping[str, str]) -> Iterator[Finding]:
    for field, value in damage.items():
        remedy = "The next that asks for a lock replaces it, and waits for one ttl before."
        if field == "term":
            remedy = "It is not believed; the next lease that is granted replaces it."
        yield Finding(CHECK, Severity.WARNING, f"{key}: {field} is {brief(value)}", remedy)
