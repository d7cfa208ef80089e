"""Schemes that other packages give: found by their entry points, refused with a remedy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tenure import AsyncScheduler, Leases, Scheduler, single_instance
from tenure.backends.address import Address
from tenure.backends.base import Backend, LeaseBackend
from tenure.backends.registry import keeps_schedules, parse, parse_leases
from tenure.backends.urls import is_public, shown
from tenure.errors import ConfigError
from tenure.process.clock import SystemClock
from tests.e2e.command import at_hand

SECRET = "hunter2"
WHOLE = """
from tenure.backends.base import Scheme
from tenure.backends.memory import MemoryBackend
from tenure.errors import ConfigError

def parse(place):
    if place.url.endswith("wrong"):
        raise ConfigError("other:// needs a host.")
    if place.url.endswith("crash"):
        raise ValueError(place.url)
    return lambda: MemoryBackend(place.clock)

SCHEME = Scheme(parse)
LEASES = Scheme(parse, leases_only=True)
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package beside the others: its module, and the metadata that pip would write."""
    monkeypatch.syspath_prepend(tmp_path)

    def put(entry: str, code: str = "", package: str = "tenure-other") -> None:
        module = package.replace("-", "_")
        monkeypatch.delitem(sys.modules, module, raising=False)
        (tmp_path / f"{module}.py").write_text(dedent(code))
        folder = tmp_path / f"{module}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[tenure.backends]\n{entry}\n")

    return put


def made(url: str) -> Backend:
    return parse(url, "default", SystemClock())()


def made_leases(url: str) -> LeaseBackend:
    return parse_leases(url, "default", SystemClock())()


# -- what works -----------------------------------------------------------------------------------


def test_scheme_of_another_package_is_a_store_like_any(install: Install) -> None:
    install("other = tenure_other:SCHEME", WHOLE)
    assert made("other://host").location.startswith("memory")
    assert made_leases("OTHER+driver://host").location.startswith("memory")
    assert keeps_schedules("other://host")
    with Scheduler("other://host") as scheduler:
        assert scheduler.running
    AsyncScheduler("other://host", leases="other://elsewhere")


def test_leases_and_single_instance_work_where_there_are_leases_only(install: Install) -> None:
    install("other = tenure_other:LEASES", WHOLE)
    with Leases("other://host") as leases, leases.hold("job"):
        assert leases.acquire("job") is None
    with single_instance("other://host") as guard:
        assert guard.held
    with Scheduler("memory://", leases="other://host") as scheduler:
        assert scheduler.running


def test_url_is_checked_at_once_by_the_package(install: Install) -> None:
    install("other = tenure_other:SCHEME", WHOLE)
    with pytest.raises(ConfigError, match="other:// needs a host"):
        Scheduler("other://wrong")


def test_namespace_is_checked_before_a_package_sees_it(install: Install) -> None:
    install("other = tenure_other:SCHEME", WHOLE)
    with pytest.raises(ConfigError, match="1 to 100 printable characters"):
        Leases("other://host", namespace="\n")


def test_built_in_schemes_are_not_given_away(install: Install) -> None:
    install("memory = tenure_other:NOTHING", "raise RuntimeError")
    assert made("memory://").location.startswith("memory")


def test_nothing_is_looked_up_for_schemes_that_are_known() -> None:
    code = """
        import sys, tenure
        tenure.Scheduler("sqlite:///x.db", leases="redis://cache")
        tenure.Scheduler("postgresql://db/app")
        heavy = {"psycopg", "redis", "sqlite3", "tenure.backends.entry_points"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", dedent(code)], check=True)


# -- what is refused ------------------------------------------------------------------------------


def refused(url: str) -> str:
    """What is said to this URL, at once or when it is opened: never with the secret in it."""
    with pytest.raises(ConfigError) as error:
        made(url)
    assert SECRET not in str(error.value)
    return str(error.value)


def test_leases_alone_are_refused_for_schedules(install: Install) -> None:
    install("other = tenure_other:LEASES", WHOLE)
    said = refused(f"other://{SECRET}@host")
    assert said.startswith("other:// holds leases here, not schedules.")
    assert "Scheduler('postgresql://…', leases='other://…')" in said
    assert not keeps_schedules("other://host")


def test_unknown_scheme_names_those_that_are_installed(install: Install) -> None:
    install("other = tenure_other:SCHEME", WHOLE)
    said = refused(f"another://{SECRET}@host/{SECRET}")
    assert said.startswith("unknown URL scheme 'another'. Known forms: sqlite:///")
    assert "other:// (from tenure-other)" in said


def test_scheme_may_have_digits(install: Install) -> None:
    """But one that nobody knows is not shown: it may be part of a password."""
    install("s3 = tenure_other:SCHEME", WHOLE)
    assert made("s3://bucket").location.startswith("memory")
    assert refused(f"{SECRET}://host").startswith("this URL's scheme is unknown. Known forms: ")


def test_two_packages_for_one_scheme(install: Install) -> None:
    install("other = tenure_other:SCHEME", WHOLE)
    install("Other = tenure_third:SCHEME", WHOLE, "tenure-third")
    assert "tenure-other and tenure-third provide other://" in refused("other://host")
    assert "Uninstall all but one" in refused("other://host")


def test_entry_point_that_names_nothing(install: Install) -> None:
    install("other = tenure_other:MISSING", WHOLE)
    said = refused("other://host")
    assert "tenure-other" in said
    assert "tenure_other:MISSING" in said
    assert "has no attribute 'MISSING'" in said
    assert "Reinstall or update tenure-other" in said


def test_package_that_fails_on_import(install: Install) -> None:
    install("other = tenure_other:SCHEME", "raise RuntimeError('two\\nlines')")
    assert "RuntimeError: two\\nlines" in refused("other://host")


def test_package_that_lacks_another(install: Install) -> None:
    install("other = tenure_other:SCHEME", "import a_driver.client")
    assert "needs the package 'a_driver': pip install a_driver" in refused("other://host")


def test_entry_point_that_is_no_scheme(install: Install) -> None:
    install("other = tenure_other:parse", WHOLE)
    said = refused("other://host")
    assert "is a function, not a tenure.backends.base.Scheme" in said


def test_driver_that_is_missing_when_the_backend_is_made(install: Install) -> None:
    install(
        "other = tenure_other:SCHEME",
        """
        from tenure.backends.base import Scheme
        def make():
            import a_driver
        SCHEME = Scheme(lambda place: make)
        """,
    )
    assert "needs the package 'a_driver'" in refused("other://host")


def test_what_a_package_says_by_accident_is_not_repeated(install: Install) -> None:
    install("other = tenure_other:SCHEME", WHOLE)
    with pytest.raises(ConfigError, match="failed on this URL with ValueError") as error:
        Scheduler(f"other://{SECRET}@crash")
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__
    assert "tenure-other" in str(error.value)


def test_parse_that_returns_a_backend_instead_of_how_to_make_it(install: Install) -> None:
    install(
        "other = tenure_other:SCHEME",
        """
        from tenure.backends.base import Scheme
        from tenure.backends.memory import MemoryBackend
        SCHEME = Scheme(lambda place: MemoryBackend(place.clock))
        """,
    )
    said = refused("other://host")
    assert "must return a function that makes the backend, not MemoryBackend" in said


def test_backend_without_the_needed_parts(install: Install) -> None:
    install(
        "other = tenure_other:SCHEME",
        """
        from tenure.backends.base import Scheme
        class Half:
            leases = wakeups = location = open = close = None
        SCHEME = Scheme(lambda place: Half)
        LEASES = Scheme(lambda place: Half, leases_only=True)
        """,
    )
    said = refused("other://host")
    assert (
        "Half of tenure-other lacks audit, editions, events, now, office, overview, relays, runs,"
        " schedules, summaries" in said
    )
    assert "leases_only=True" in said


def test_lease_backend_without_the_needed_parts(install: Install) -> None:
    install(
        "other = tenure_other:LEASES",
        """
        from tenure.backends.base import Scheme
        class Half:
            leases = wakeups = location = open = close = None
        LEASES = Scheme(lambda place: Half, leases_only=True)
        """,
    )
    with pytest.raises(ConfigError, match=r"lacks now, which every tenure.backends.base.LeaseB"):
        made_leases("other://host")


# -- what is shown --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        f"other://{SECRET}@host/x",
        f"other://me:{SECRET}@host/x",
        f"other://{SECRET}",
        f"other:///{SECRET}",
        f"other://host/{SECRET}",
        f"other://host?{SECRET}",
        f"other+{SECRET}://host",
    ],
)
def test_nothing_of_a_url_is_shown_that_tenure_cannot_read(url: str) -> None:
    assert shown(url) == "other://…"
    assert not is_public(url)
    assert SECRET not in repr(Address(url))
    assert SECRET not in Address(url).command("doctor")


def test_suggested_command_does_not_lead_to_another_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two such URLs look the same; they are not."""
    monkeypatch.setenv("TENURE_URL", "other://one")
    assert Address("other://one").command("doctor") == 'tenure doctor --url "$TENURE_URL"'
    assert Address("other://two").command("doctor") == 'tenure doctor --url "$URL"'


# -- the command line -----------------------------------------------------------------------------


def test_commands_on_a_store_with_leases_only(install: Install, tmp_path: Path) -> None:
    install("other = tenure_other:LEASES", WHOLE)
    listed = at_hand(tmp_path, "leases", "list", "--json", "--url", "other://host")
    assert (listed.code, listed.json) == (0, []), listed
    status = at_hand(tmp_path, "status", "--url", f"other://{SECRET}@host")
    assert status.code == 2
    assert "other:// holds leases here, not schedules" in status.err
    assert 'tenure leases list --url "$TENURE_URL"' in status.err
    assert SECRET not in status.err
    both = at_hand(tmp_path, "migrate", "--url", "sqlite:///x.db")
    assert both.code == 0
    both = at_hand(tmp_path, "status", "--json", "--url", "sqlite:///x.db", "--leases", "other://h")
    assert both.json["leases"].startswith("memory"), both


def test_doctor_says_that_a_backend_has_no_checks_of_its_own(
    install: Install, tmp_path: Path
) -> None:
    install(
        "other = tenure_other:LEASES",
        """
        from tenure.backends.base import Scheme
        from tenure.backends.memory import MemoryBackend

        class Plain:
            def __init__(self, clock):
                whole = MemoryBackend(clock)
                self.leases, self.wakeups, self.location = whole.leases, whole.wakeups, "here"
                self.now, self.open, self.close = whole.now, whole.open, whole.close

        LEASES = Scheme(lambda place: lambda: Plain(place.clock), leases_only=True)
        """,
    )
    answer = at_hand(tmp_path, "doctor", "--json", "--url", "other://host")
    assert answer.code == 0, answer
    checks = {finding["check"]: finding for finding in answer.json["findings"]}
    assert checks["store"]["severity"] == "ok"
    assert "here has no checks of its own" in checks["store"]["text"]
    assert checks["leases"]["text"] == "0 live leases of 0"
    assert "clock" in checks
