"""The command line on Redis: leases there alone, or beside a store of schedules; and `doctor`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure import LeaseHeld, LeaseLost, Leases
from tenure.backends.redis import RedisBackend, target
from tenure.backends.redis.diagnose import tls
from tenure.backends.sqlite import SQLiteBackend
from tenure.model import Fence, Grant
from tenure.node.node import LEADER
from tenure.process.identity import new_holder
from tests.docs.markdown import ROOT
from tests.e2e.command import APP, Answer, at_hand, node, tenure
from tests.support.redis_servers import ClusterSetup, SentinelSetup, TlsFront
from tests.support.servers import ValkeyServer


@pytest.fixture(scope="module")
def shared() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def server(shared: ValkeyServer) -> Iterator[ValkeyServer]:
    """The server of this module, as it was before when the test is over."""
    yield shared
    for line in ("maxmemory 0", "maxmemory-policy noeviction", "appendonly no", "save ''"):
        name, value = line.split()
        shared.command("CONFIG", "SET", name, value.strip("'"))
    shared.command("CONFIG", "SET", "min-replicas-to-write", 0)
    shared.command("FLUSHALL")


def examine(folder: Path, *args: object) -> tuple[Answer, dict[str, dict[str, Any]]]:
    answer = at_hand(folder, "doctor", "--json", *args)
    assert answer.json["ok"] is (answer.code == 0)
    print(answer)  # noqa: T201 - pytest shows it with a failure
    return answer, {finding["check"]: finding for finding in answer.json["findings"]}


# -- leases ---------------------------------------------------------------------------------------


def test_leases_in_redis_alone(server: ValkeyServer, tmp_path: Path) -> None:
    url = ("--url", server.url)
    assert at_hand(tmp_path, "leases", "list", *url).out == "No leases.\n"
    with Leases(server.url) as leases:
        hold = leases.hold("import", ttl=3, wait=30)
        lease = hold.__enter__()
        (listed,) = tenure(tmp_path, "leases", "list", "--json", *url).json
        assert (listed["name"], listed["term"], listed["state"]) == ("import", lease.term, "live")
        shown = at_hand(tmp_path, "leases", "show", "import", *url)
        assert str(lease.term) in shown.out
        assert "Unreadable" not in shown.out
        with pytest.raises(LeaseHeld) as held, Leases(server.url) as others:
            others.hold("import", ttl=3).__enter__()
        assert "edited" not in str(held.value)
        assert at_hand(tmp_path, "leases", "show", "export", *url).code == 1
        unsure = at_hand(tmp_path, "leases", "evict", "import", *url, stdin="n\n")
        assert unsure.code == 1
        evicted = at_hand(tmp_path, "leases", "evict", "import", "--yes", "--reason", "test", *url)
        assert evicted.code == 0, evicted
        with pytest.raises(LeaseLost):
            hold.__exit__(None)
    history = at_hand(tmp_path, "leases", "history", "import", "--json", *url).json
    assert "test" in history[0]["end"]
    assert at_hand(tmp_path, "leases", "evict", "import", "--yes", *url).code == 1


@pytest.mark.parametrize(
    "command", [("status",), ("schedules", "list"), ("runs", "list"), ("migrate",)]
)
def test_what_needs_schedules_says_where_to_look(command: tuple[str, ...], tmp_path: Path) -> None:
    answer = at_hand(tmp_path, *command, "--url", "redis://localhost")
    assert answer.code == 2
    alone = "tenure leases list --url redis://localhost"
    for way in ("--url postgresql://…", "--leases redis://…", alone):
        assert way in answer.err


def test_scheduler_with_its_leases_in_redis(server: ValkeyServer, tmp_path: Path) -> None:
    app = APP.replace(", ttl=5)", f', leases="{server.url}")')
    (tmp_path / "app.py").write_text(app)
    url, leases = ("--url", "sqlite:///jobs.db"), ("--leases", server.url)
    with node(tmp_path) as running:
        status = tenure(tmp_path, "status", "--json", *url, *leases).json
        assert status["leader"]["pid"] == running.pid
        assert status["leader"]["in_office"]
        assert [each["pid"] for each in status["nodes"]] == [running.pid]
        assert status["next_due"]
        assert (status["leases"], "jobs.db" in status["store"]) == (server.url, True)
        by_variable = at_hand(tmp_path, "status", *url, TENURE_LEASES=server.url)
        assert by_variable.code == 0
        assert f"pid {running.pid}" in by_variable.out
        answer, findings = examine(tmp_path, *url, *leases)
        assert answer.code == 0, answer
        assert f"pid {running.pid}" in findings["leader"]["text"]
        assert findings["leader"]["severity"] == "ok", answer
        assert findings["Redis"]["severity"] == findings["schema"]["severity"] == "ok"
        alone, findings = examine(tmp_path, "--url", server.url)
        assert alone.code == 0, alone
        assert f"pid {running.pid}" in findings["leader"]["text"]
        assert "2 live leases" in findings["leases"]["text"]
        names = {
            each["name"]
            for each in at_hand(tmp_path, "leases", "list", "--json", *leases, *url).json
        }
        assert "tenure/leader" in names
        run = at_hand(tmp_path, "schedules", "run-now", "sweep", *url, *leases)
        assert "No node is running" not in run.err
    elsewhere = at_hand(tmp_path, "status", *url)
    assert elsewhere.code == 1
    assert "--leases redis://…" in elsewhere.out


def test_doctor_compares_a_leader_in_redis_with_the_office(
    server: ValkeyServer, tmp_path: Path
) -> None:
    async def lead() -> None:
        leases, store = RedisBackend(server.url), SQLiteBackend(tmp_path / "jobs.db")
        await leases.open()
        await store.open()
        grant = await leases.leases.acquire(LEADER, new_holder(), 60.0, fenced=True)
        assert isinstance(grant, Grant)
        another = Fence(LEADER, grant.term + 5, "another")
        assert await store.office.take(another) == another
        await leases.close()
        await store.close()

    asyncio.run(lead())
    _, findings = examine(tmp_path, "--url", "sqlite:///jobs.db", "--leases", server.url)
    assert findings["leader"]["severity"] == "ok"
    assert "nobody can fire" in findings["office"]["text"]


# -- doctor ---------------------------------------------------------------------------------------


def test_good_redis_is_found_good(server: ValkeyServer, tmp_path: Path) -> None:
    server.command("CONFIG", "SET", "appendonly", "yes")
    answer, findings = examine(tmp_path, "--url", server.url)
    assert answer.code == 0, answer
    assert {finding["severity"] for finding in findings.values()} == {"ok"}, answer
    text = tenure(tmp_path, "doctor", "--url", server.url)
    assert (text.code, "no problems, no warnings" in text.out) == (0, True)


@pytest.mark.parametrize(
    ("settings", "check", "severity", "says"),
    [
        ("save ''", "Redis persistence", "warning", "forgets who holds what"),
        ("save 3600 1", "Redis persistence", "ok", "snapshots"),
        ("maxmemory-policy allkeys-lru", "Redis memory", "warning", "maxmemory is not set"),
        ("maxmemory-policy volatile-ttl maxmemory 1gb", "Redis memory", "ok", "not evicted"),
        ("maxmemory-policy allkeys-lru maxmemory 1gb", "Redis memory", "problem", "forgotten"),
        ("maxmemory 1000000", "Redis memory", "warning", "of maxmemory is used"),
        ("min-replicas-to-write 1", "Redis replication", "problem", "writes are refused"),
    ],
)
def test_how_the_server_is_set_up(
    server: ValkeyServer, tmp_path: Path, settings: str, check: str, severity: str, says: str
) -> None:
    for name, value in re.findall(r"([a-z-]+) ('[^']*'|\d+ \d+|\S+)", settings):
        server.command("CONFIG", "SET", name, value.strip("'"))
    answer, findings = examine(tmp_path, "--url", server.url)
    found = findings[check]
    assert (found["severity"], says in found["text"]) == (severity, True), answer
    assert (severity == "ok") is (found["remedy"] is None)
    assert answer.code == (1 if severity == "problem" else 0)


@contextmanager
def user(server: ValkeyServer, *rules: str) -> Iterator[str]:
    server.command("ACL", "SETUSER", "app", "reset", "on", ">secret", *rules)
    try:
        yield server.url.replace("//", "//app:secret@")
    finally:
        server.command("ACL", "DELUSER", "app")


ALL = ("~tenure:*", "&tenure:*", "+@all")
DOCUMENTED = tuple(
    " ".join(re.findall(r"ACL SETUSER tenure (.*)", (ROOT / "docs/redis.md").read_text())).split()
)


@pytest.mark.parametrize(
    ("rules", "severity", "says", "remedy"),
    [
        (ALL, "ok", "all that is needed", None),
        (DOCUMENTED, "ok", "all that is needed", None),
        ((*ALL, "-config"), "ok", "config|get: this check cannot see", None),
        ((*ALL, "-scan"), "ok", "cannot find leases that are not on the list", None),
        ((*ALL, "-client|list"), "warning", "noticed only after its ttl", "+client|list"),
        ((*ALL, "-subscribe"), "warning", "polls every second", "+subscribe"),
        ((*ALL, "-hset", "-publish"), "problem", "hset, publish on keys", "+hset +publish"),
        ((*ALL, "-info"), "problem", "may not use info", "+info"),
        ((*ALL, "-evalsha"), "problem", "'evalsha' command", "+evalsha"),
        (
            ("~other:*", "&*", "+@all"),
            "problem",
            "may not run scripts on our keys",
            "~tenure:{default}:*",
        ),
        (("~tenure:*", "+@all"), "problem", "may not use publish", "&tenure:{default}:*"),
    ],
)
def test_rights_that_are_missing_are_named(
    server: ValkeyServer,
    tmp_path: Path,
    rules: tuple[str, ...],
    severity: str,
    says: str,
    remedy: str | None,
) -> None:
    with user(server, *rules) as url:
        answer, findings = examine(tmp_path, "--url", url)
        found = findings["Redis rights"]
        assert (found["severity"], says in found["text"]) == (severity, True), answer
        if remedy is not None:
            assert remedy in found["remedy"]
        assert answer.code == (1 if severity == "problem" else 0)
        # What it says is so: whoever has the rights can, and whoever lacks them cannot.
        held = at_hand(tmp_path, "leases", "list", "--url", url)
        assert severity == "problem" or held.code == 0, held
        assert "secret" not in answer.out


def test_leases_work_without_the_rights_that_are_only_useful(server: ValkeyServer) -> None:
    rules = (*ALL, "-config", "-client", "-subscribe")
    with user(server, *rules) as url, Leases(url) as ours, Leases(url) as others:
        with ours.hold("job", ttl=2, wait=30) as lease:
            assert others.acquire("job") is None
        with others.hold("job", ttl=2, wait=30) as later:  # nobody is told: it looks
            assert later.term > lease.term


def test_wrong_password_and_nobody_there(server: ValkeyServer, tmp_path: Path) -> None:
    url = server.url.replace("//", "//default:wrong@")
    with user(server, *ALL) as right:
        answer, findings = examine(tmp_path, "--url", right.replace("secret", "wrong"))
    assert answer.code == 1
    assert "Check user and password" in findings["Redis"]["text"]
    port = url.rpartition(":")[2].partition("/")[0]
    answer, findings = examine(tmp_path, "--url", server.url.replace(port, "1"))
    assert "right address" in findings["Redis"]["remedy"]
    assert answer.code == 1


def test_tls_is_advised_where_a_network_is_in_between() -> None:
    for url in ("redis://localhost", "redis://127.0.0.2", "unix:///s", "rediss://db.example"):
        assert tls(target.parse(url)).severity == "ok"
    found = tls(target.parse("redis+sentinel://a.example,127.0.0.1/service"))
    assert (found.severity, "a.example as plain text" in found.text) == ("warning", True)


def test_certificate_that_is_not_trusted(server: ValkeyServer, tmp_path: Path) -> None:
    with TlsFront(server.port) as front:
        answer, findings = examine(tmp_path, "--url", front.url())
        assert answer.code == 1
        assert "?ssl_ca_certs=/path/ca.pem" in findings["Redis"]["text"]
        answer, findings = examine(tmp_path, "--url", front.url(ssl_ca_certs=front.ca))
        assert answer.code == 0
        assert findings["Redis TLS"]["text"] == "on"


def test_clock_of_the_server(tmp_path: Path) -> None:
    server = ValkeyServer(clock=True)
    try:
        server.start().move_clock(90)
        _, findings = examine(tmp_path, "--url", server.url)
        assert findings["Redis clock"]["severity"] == "warning"
        assert "90." in findings["Redis clock"]["text"]
    finally:
        server.close()


def test_server_that_began_anew_says_why_locks_are_refused(
    server: ValkeyServer, tmp_path: Path
) -> None:
    server.command("FLUSHALL")
    with Leases(server.url) as leases:
        assert leases.acquire("job", ttl=30) is None
    _, findings = examine(tmp_path, "--url", server.url)
    assert "started over" in findings["Redis run"]["text"]


def test_sentinels_and_replicas(tmp_path: Path) -> None:
    setup = SentinelSetup(replicas=1, sentinels=2)
    try:
        setup.start()
        _, findings = examine(tmp_path, "--url", setup.url)
        assert findings["Redis sentinels"]["severity"] == "warning"
        assert "a majority survives" in findings["Redis sentinels"]["remedy"]
        assert "beside its successor" in findings["Redis replication"]["text"]
        setup.master.command("CONFIG", "SET", "min-replicas-to-write", 1)
        answer, findings = examine(tmp_path, "--url", setup.url)
        assert findings["Redis replication"]["severity"] == "ok", answer

        answer, findings = examine(tmp_path, "--url", setup.replicas[0].url)
        assert findings["Redis role"]["severity"] == "problem"
        assert f"127.0.0.1:{setup.master.port}" in findings["Redis role"]["remedy"]

        setup.sentinels[0].stop()
        _, findings = examine(tmp_path, "--url", setup.url)
        assert f":{setup.sentinels[0].port}" in findings["Redis sentinels"]["text"]
        setup.sentinels[1].stop()
        answer, findings = examine(tmp_path, "--url", setup.url)
        assert (answer.code, findings["Redis sentinels"]["severity"]) == (1, "problem")
    finally:
        setup.close()


def test_node_of_a_cluster(tmp_path: Path) -> None:
    setup = ClusterSetup()
    try:
        setup.start()
        answer, findings = examine(tmp_path, "--url", setup.url)
        assert answer.code == 0
        assert "no replica" in findings["Redis cluster"]["text"]
        owner = setup.owner("tenure:{default}:server")
        for each in setup.nodes:
            answer, findings = examine(tmp_path, "--url", each.url)
            assert answer.code == 1
            found = findings["Redis cluster" if each is owner else "Redis"]
            assert "redis+cluster://" in f"{found['text']} {found['remedy']}"
        answer = at_hand(tmp_path, "leases", "list", "--url", setup.url)
        assert answer.out == "No leases.\n"
    finally:
        setup.close()
