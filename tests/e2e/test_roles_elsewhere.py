"""`tenure migrate --roles` for Redis and for SQLite, tried on real ones."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tenure import Leases, Scheduler, StoreError, every
from tests.e2e.command import at_hand, until
from tests.support.servers import ValkeyServer

KEY = "tenure:{default}:lease:job"
HELLO = {"client", "client|setinfo"}
"""What redis-py says when it connects, and goes on without."""


def pack() -> None: ...


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def users(server: ValkeyServer, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The URL of each."""
    answer = at_hand(tmp_path, "migrate", "--roles", "--url", server.url)
    assert answer.code == 0, answer
    lines = answer.out.splitlines()
    assert [line.split()[2] for line in lines] == ["tenure_reader", "tenure_node"]
    for line in lines:
        server.command(*line.split())
        server.command("ACL", "SETUSER", line.split()[2], "on", ">secret")
    yield {
        kind: server.url.replace("//", f"//tenure_{kind}:secret@") for kind in ("reader", "node")
    }
    for line in lines:
        server.command("ACL", "DELUSER", line.split()[2])


def test_again_changes_nothing(server: ValkeyServer, users: dict[str, str], tmp_path: Path) -> None:
    before = server.command("ACL", "LIST")
    for line in at_hand(tmp_path, "migrate", "--roles", "--url", server.url).out.splitlines():
        server.command(*line.split())
    assert server.command("ACL", "LIST") == before


def test_node_keeps_its_leases(server: ValkeyServer, users: dict[str, str], tmp_path: Path) -> None:
    """A whole life: campaign, presence, locks, eviction, and what is forgotten."""
    server.command("ACL", "LOG", "RESET")
    done: list[str] = []
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs.db", leases=users["node"], ttl=5.0)

    @scheduler.task(every(seconds=1))
    def tick() -> None:
        done.append("tick")

    with scheduler, Leases(users["node"]) as leases, Leases(users["node"]) as others:
        until(lambda: done, "a run")
        with leases.hold("job", ttl=4, wait=30):  # a young server waits for what it may not know
            assert others.acquire("job", ttl=4) is None
        taken = others.acquire("job", ttl=4)
        others.evict("job")
        assert taken is not None
    for command in (("leases", "list"), ("leases", "history"), ("prune",)):
        answer = at_hand(tmp_path, *command, "--url", users["node"])
        assert answer.code == 0, (command, answer)
    assert _denied(server) <= HELLO
    if not _tells(server):
        return
    answer = at_hand(tmp_path, "doctor", "--json", "--url", users["node"])
    found = {each["check"]: each for each in answer.json["findings"]}
    assert found["Redis rights"]["severity"] == "ok"
    assert found["Redis rights"]["remedy"] is None  # it is not to have them
    assert "may not use config|get, scan: this check cannot see" in found["Redis rights"]["text"]


def test_reader_reads(server: ValkeyServer, users: dict[str, str], tmp_path: Path) -> None:
    server.command("ACL", "LOG", "RESET")
    with Leases(users["node"]) as leases, leases.hold("job", ttl=5, wait=20):
        looking = at_hand(tmp_path, "prune", "--dry-run", "--url", users["reader"])
        assert looking.code == 0, looking
        for command in (("leases", "list"), ("leases", "show", "job"), ("leases", "history")):
            answer = at_hand(tmp_path, *command, "--url", users["reader"])
            assert (answer.code, "job" in answer.out) == (0, True), (command, answer)
        assert _denied(server) <= HELLO | {"client|id"}  # by which others see that a holder lives
        refused = at_hand(tmp_path, "leases", "evict", "job", "--yes", "--url", users["reader"])
        assert refused.code == 1
        assert "tenure migrate --roles" in refused.err
        with Leases(users["reader"]) as reader, pytest.raises(StoreError, match="--roles"):
            reader.acquire("other", ttl=1)
    if not _tells(server):
        return
    answer = at_hand(tmp_path, "doctor", "--json", "--url", users["reader"])
    found = {each["check"]: each for each in answer.json["findings"]}
    assert found["Redis rights"]["severity"] == "ok"
    assert "'tenure_reader' reads and changes nothing" in found["Redis rights"]["text"]
    assert found["Redis rights"]["remedy"] is None


def test_reader_has_nothing_that_writes(server: ValkeyServer, users: dict[str, str]) -> None:
    """Of all commands that the server has."""
    with redis.Redis.from_url(users["reader"], decode_responses=True) as reader:
        writing = set(server.command("ACL", "CAT", "write"))
        assert {"set", "del", "hset", "lpush"} <= writing
        assert not writing & _granted(server, "tenure_reader")
        for command in (("DEL", KEY), ("HSET", KEY, "term", "9"), ("FLUSHALL",), ("KEYS", "*")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                reader.execute_command(*command)
        # Nor by a script, which has the rights of its user.
        digest = reader.script_load("return redis.call('DEL', KEYS[1])")
        with pytest.raises(
            redis.exceptions.ResponseError, match=r"permissions|can't run this command"
        ):
            reader.evalsha(digest, 1, KEY)


@pytest.mark.parametrize("kind", ["reader", "node"])
def test_neither_administers_nor_reaches_other_keys(
    server: ValkeyServer, users: dict[str, str], kind: str
) -> None:
    granted = _granted(server, f"tenure_{kind}")
    for category in ("admin", "dangerous"):
        assert granted & set(server.command("ACL", "CAT", category)) <= {"info", "client|list"}
    with redis.Redis.from_url(users[kind], decode_responses=True) as line:
        for command in (
            ("HGETALL", "tenure:{other}:lease:job"),
            ("HGETALL", "session:7"),
            ("SUBSCRIBE", "tenure:{other}:wake"),
            ("CONFIG", "GET", "requirepass"),
            ("ACL", "LIST"),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                line.execute_command(*command)


def _tells(server: ValkeyServer) -> bool:
    """Does it answer whether a user may do something?"""
    return int(server.command("INFO", "server")["redis_version"].split(".")[0]) >= 7


def _denied(server: ValkeyServer) -> set[str]:
    """What anybody tried without a right to it."""
    lines = server.command("ACL", "LOG")
    lines = [x if isinstance(x, dict) else dict(zip(x[::2], x[1::2], strict=True)) for x in lines]
    return {str(line["object"]) for line in lines}


def _granted(server: ValkeyServer, user: str) -> set[str]:
    about = server.command("ACL", "GETUSER", user)
    if not isinstance(about, dict):  # as older servers answer
        about = dict(zip(about[::2], about[1::2], strict=True))
    words = about["commands"]
    return {word[1:] for word in words.split() if word.startswith("+")}


def test_node_without_its_rights_does_not_start(
    server: ValkeyServer, users: dict[str, str], tmp_path: Path
) -> None:
    if not _tells(server):
        pytest.skip("a server before 7.0 does not tell")
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs.db", leases=users["reader"])
    scheduler.task(every(seconds=1))(pack)
    with pytest.raises(StoreError, match=r"'tenure_reader' may not use .*hset") as told:
        scheduler.start()
    assert told.value.stage == "check"
    assert "--roles" in str(told.value)


def test_roles_for_another_database(server: ValkeyServer, tmp_path: Path) -> None:
    url = server.url.removesuffix("/0") + "/1"
    for line in at_hand(
        tmp_path, "migrate", "--roles", "--prefix", "other_", "--url", url
    ).out.splitlines():
        server.command(*line.split())
    for kind in ("node", "reader"):
        server.command("ACL", "SETUSER", f"other_{kind}", "on", ">secret")
    by = {kind: url.replace("//", f"//other_{kind}:secret@") for kind in ("node", "reader")}
    with Leases(by["node"]) as leases, leases.hold("job", ttl=4, wait=30):
        answer = at_hand(tmp_path, "leases", "list", "--url", by["reader"])
        assert (answer.code, "job" in answer.out) == (0, True), answer


@pytest.mark.parametrize("namespace", ["shop 7", "a*b", "[x]", "it's", 'a"b', "über"])
def test_namespace_by_any_name(server: ValkeyServer, namespace: str, tmp_path: Path) -> None:
    where = ("--url", server.url, "--namespace", namespace)
    answer = at_hand(tmp_path, "migrate", "--roles", "--prefix", "odd_", *where)
    for line in answer.out.splitlines():
        server.command(*line.split(" "))
    server.command("ACL", "SETUSER", "odd_node", "on", ">secret")
    url = server.url.replace("//", "//odd_node:secret@")
    with (
        Leases(url, namespace=namespace) as leases,
        leases.hold("job", ttl=4, wait=30) as lease,
    ):
        lease.check()
    with Leases(url, namespace="entirely different") as leases, pytest.raises(StoreError):
        leases.acquire("job")


# -- SQLite ----------------------------------------------------------------------------------------


def test_commands_for_sqlite_close_file_and_folder(tmp_path: Path) -> None:
    """With the group of this process in place of the one that they name."""
    folder = tmp_path / "it's here"
    folder.mkdir(mode=0o755)
    url = f"sqlite:///{folder}/jobs.db"
    with Leases(url) as leases:
        leases.acquire("job")
        answer = at_hand(tmp_path, "migrate", "--roles", "--url", url)
        assert answer.code == 0
        assert "SQLite has no roles" in answer.err
        assert "`tenure backup COPY.db --url" in answer.err
        commands = answer.out.replace("chgrp tenure", f"chgrp {os.getegid()}")
        subprocess.run(["sh", "-eu"], input=commands, text=True, check=True)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        endings = ("", "-wal", "-shm", "-tenure")
        assert modes == {f"jobs.db{ending}": 0o660 for ending in endings}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o2770
        assert leases.acquire("other") is not None


def test_printing_for_sqlite_creates_nothing(tmp_path: Path) -> None:
    answer = at_hand(tmp_path, "migrate", "--roles", "--url", "sqlite:///none.db")
    assert answer.code == 0
    assert list(tmp_path.iterdir()) == []


def test_migrate_of_a_redis_alone_is_refused(server: ValkeyServer, tmp_path: Path) -> None:
    for options in ((), ("--sql",), ("--check",)):
        answer = at_hand(tmp_path, "migrate", *options, "--url", server.url)
        assert (answer.code, "Redis holds leases here" in answer.err) == (2, True)
