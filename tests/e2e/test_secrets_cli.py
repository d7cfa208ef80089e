"""No password on stdout or stderr of any command, wherever the URL was given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.docs.test_cli import COMMANDS
from tests.e2e.command import Answer, at_hand, tenure
from tests.support.secrets import LEFT, OTHERS, PLAIN, POSTGRES, REDIS, RIGHT, check
from tests.support.servers import PostgresServer, ValkeyServer

pytestmark = pytest.mark.slow

USED = {path: command for path, command in COMMANDS.items() if path != "tenure demo"}
URLS = (
    *(form.format(PLAIN) for form in (*POSTGRES, *REDIS, *OTHERS)),
    *(POSTGRES[0].format(f"{LEFT}{mark}{RIGHT}") for mark in ("/", "@", "#", "%zz", "[", " ")),
    *(REDIS[0].format(f"{LEFT}{mark}{RIGHT}") for mark in ("/", "#", "?", "[")),
)
APP = "from tenure import Scheduler\nscheduler = Scheduler()\n"
VALUES = {"RUN": "7", "MODULE:ATTR": "app:scheduler", "TIME": "2026-01-01", "INTERVAL": "5m"}
REQUIRED = {
    "tenure schedules add": ["--every", "5m", "--task", "x"],
    "tenure schedules update": ["--priority", "1"],
    "tenure schedules run-now": ["--wait", "0.01"],
    "tenure dashboard": ["--bind", "192.0.2.1:1"],  # not an address of this machine: so it ends
}
YES = ("tenure schedules remove", "tenure leases evict")
FOR_EVER = ("tenure run", "tenure events tail")
"""They go on until Ctrl+C."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def words(path: str, command: click.Command) -> list[str]:
    """The command with everything that it cannot do without."""
    given = path.split()[1:]
    for param in command.params:
        if isinstance(param, click.Argument):
            given.append(VALUES.get(param.make_metavar(click.Context(command)), "x"))
        elif param.required:
            given += [param.opts[0], VALUES.get(str(param.metavar), "x")]
    return [*given, *REQUIRED.get(path, []), *(["--yes"] if path in YES else [])]


def silent(answer: Answer, url: str) -> Answer:
    check(f"{answer.out}\n{answer.err}", url)
    assert "Traceback" not in answer.err
    return answer


def has(command: click.Command, option: str) -> bool:
    return any(option in param.opts for param in command.params)


@pytest.mark.parametrize("path", USED)
def test_url_that_does_not_work(path: str, folder: Path) -> None:
    command = USED[path]
    for url in URLS:
        (folder / "url").write_text(url)
        given = words(path, command)
        ways = [
            silent(at_hand(folder, *given, "--url", url), url),
            silent(at_hand(folder, *given, f"--url={url}"), url),
            silent(at_hand(folder, *given, TENURE_URL=url), url),
            silent(at_hand(folder, *given, "--url-file", "url"), url),
            silent(at_hand(folder, *given, TENURE_URL_FILE="url"), url),
        ]
        if "preview" not in path:  # which needs no store for a trigger, nor does a wrong name
            assert all(answer.code for answer in ways), ways
        if has(command, "--leases"):
            store = ("--url", "sqlite:///none.db")
            silent(at_hand(folder, *given, *store, "--leases", url), url)
            silent(at_hand(folder, *given, *store, "--leases-file", "url"), url)
            silent(at_hand(folder, *given, *store, TENURE_LEASES=url), url)
        if has(command, "--json"):
            silent(at_hand(folder, *given, "--url", url, "--json"), url)


def _taking_urls() -> Iterator[tuple[str, ...]]:
    """The words before and after a URL that a command takes elsewhere than with --url."""
    for path, command in USED.items():
        given = words(path, command)
        for param in command.params:
            if isinstance(param, click.Option) and param.metavar == "URL":
                if not {"--url", "--leases"} & {*param.opts}:
                    yield *given, param.opts[0], "{url}"
            elif param.name in ("url", "source", "target") and param.metavar is None:
                arguments = [p.name for p in command.params if isinstance(p, click.Argument)]
                place = arguments.index(param.name)
                place += len(path.split()) - 1
                yield *given[:place], "{url}", *given[place + 1 :]


SINKS = (
    "kafka://app:{}@127.0.0.1:1",
    "redis-streams://:{}@127.0.0.1:1/0",
    "webhook+http://app:{}@127.0.0.1:1/",
    "webhook+https://127.0.0.1:1/?token={}",
)


@pytest.mark.parametrize("given", [*_taking_urls()], ids=" ".join)
def test_url_elsewhere_that_does_not_work(given: tuple[str, ...], folder: Path) -> None:
    others = [form.format(f"{LEFT}{mark}{RIGHT}") for form in SINKS for mark in ("", "/", "#", "[")]
    for url in (*URLS, *(() if given[0] == "run" else others)):  # a node would start with those
        (folder / "url").write_text(url)
        for store in ([], ["--url", "sqlite:///none.db"]):
            for way in (url, "@url"):
                told = [word.replace("{url}", way) for word in given]
                assert silent(at_hand(folder, *told, *store), url).code


def test_the_commands_that_take_urls_elsewhere_are_known() -> None:
    assert [" ".join(given) for given in _taking_urls()] == [
        "run app:scheduler --relay {url}",
        "import redbeat {url}",
        "relay --to {url}",
        "copy {url} x",
        "copy x {url}",
    ]


@pytest.mark.parametrize("path", USED)
def test_url_in_a_wrong_place(path: str, folder: Path) -> None:
    """As a word too many, in place of a name, as the value of another option."""
    command = USED[path]
    for url in (POSTGRES[0].format(PLAIN), POSTGRES[0].format(f"{LEFT}/ {RIGHT}")):
        given, store = words(path, command), ("--url", "sqlite:///none.db")
        silent(at_hand(folder, *given, url), url)
        silent(at_hand(folder, *path.split()[1:], url, *store), url)
        silent(at_hand(folder, *path.split()[1:-1], url), url)
        silent(at_hand(folder, *given, f"--{url}"), url)
        for param in command.params:
            option = param.opts[0]
            if isinstance(param, click.Option) and not param.is_flag and option != "--url":
                silent(at_hand(folder, *given, *store, option, url), url)
                silent(at_hand(folder, *given, *store, f"{option}={url}"), url)


# -- stores that answer ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    made = ValkeyServer().start()
    made.command("ACL", "SETUSER", "app", "on", f">{PLAIN}", "~*", "&*", "+@all")
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("path", USED)
def test_store_that_answers(
    path: str, folder: Path, postgres: PostgresServer, server: ValkeyServer
) -> None:
    command = USED[path]
    url = postgres.url.replace("tenure@", f"tenure:{PLAIN}@")
    leases = server.url.replace("redis://", f"redis://app:{PLAIN}@")
    assert at_hand(folder, "migrate", "--url", url).code == 0
    for json in ([], ["--json"]):
        if path in FOR_EVER or (json and not has(command, "--json")):
            continue
        given = [*words(path, command), *json]
        silent(at_hand(folder, *given, "--url", url), url)
        if has(command, "--leases"):
            silent(at_hand(folder, *given, "--url", url, "--leases", leases), leases)
            silent(at_hand(folder, *given, "--url", leases), leases)


def test_node_tells_no_password(folder: Path, postgres: PostgresServer) -> None:
    """With all that it logs, with an error in the end that nobody expected, and its traceback."""
    url = postgres.url.replace("tenure@", f"tenure:{PLAIN}@")
    (folder / "app.py").write_text(
        "from tenure import Scheduler, every\n"
        f"scheduler = Scheduler({url!r}, namespace='told')\n"
        "@scheduler.task(every(seconds=1))\n"
        "def sweep(): pass\n"
        "def end(fact): raise SystemError('a listener of mine')\n"
        "scheduler.on('node.started', end)\n"
        "run = scheduler.run\n"
        "def broken():\n"
        "    scheduler.start()\n"
        "    scheduler.stop()\n"
        "    raise SystemError('nobody expected this')\n"
        "scheduler.run = broken\n"
    )
    answer = tenure(folder, "run", "app:scheduler", "--log-level", "debug")
    check(answer.out + answer.err, url)
    assert "nobody expected this" in answer.err
    assert "a listener of mine" in answer.err
    assert "store=postgresql://tenure@127.0.0.1" in answer.err


def test_traceback_of_a_module_shows_its_code_without_the_password(folder: Path) -> None:
    for url in (POSTGRES[0].format(PLAIN), POSTGRES[0].format(f"{LEFT} /{RIGHT}")):
        (folder / "app.py").write_text(f"def f(x): raise ValueError(x)\nf({url!r})\n")
        for level in ("debug", "info"):
            answer = tenure(folder, "run", "app:scheduler", "--log-level", level)
            check(answer.out + answer.err, url)
            assert "ValueError" in answer.err


def test_file_with_a_url(folder: Path) -> None:
    (folder / "url").write_text("sqlite:///jobs.db\n")
    assert at_hand(folder, "migrate", "--url-file", "url").code == 0
    assert (folder / "jobs.db").exists()
    listed = at_hand(folder, "schedules", "list", TENURE_URL_FILE="url")
    assert listed.out == "No schedules.\n", listed
    both = at_hand(folder, "schedules", "list", TENURE_URL_FILE="url", TENURE_URL="sqlite:///x.db")
    assert both.code == 2
    assert "both TENURE_URL and TENURE_URL_FILE are set" in both.err
    for given in (("--url-file", "url", "--url", "sqlite:///x.db"), ("--url-file", "none")):
        assert at_hand(folder, "schedules", "list", *given).code == 2
    chosen = at_hand(folder, "schedules", "list", "--url-file", "url", TENURE_URL="sqlite:///x.db")
    assert chosen.code == 0, "what the command says counts"
    (folder / "url").write_text(f"sqlite:///jobs.db\n{PLAIN}\n")
    refused = silent(at_hand(folder, "schedules", "list", "--url-file", "url"), "two lines")
    assert "its only line" in refused.err


def test_node_takes_its_url_from_a_file(folder: Path) -> None:
    (folder / "url").write_text("sqlite:///jobs.db\n")
    (folder / "app.py").write_text(
        "import os\nfrom tenure import Scheduler\n"
        "assert 'TENURE_URL' not in os.environ\n"
        "scheduler = Scheduler()\n"
        "scheduler.run = lambda: print(scheduler.url)\n"
    )
    answer = tenure(folder, "run", "app:scheduler", "--url-file", "url")
    assert answer.out == "sqlite:///jobs.db\n", answer
