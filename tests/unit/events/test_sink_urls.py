"""The URLs of sinks: what is refused, with what advice, and that nothing secret is shown."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from urllib.parse import quote

import pytest

from tenure.errors import ConfigError
from tenure.events.sinks import entry_points
from tenure.events.sinks.base import SinkPlace, SinkScheme
from tenure.events.sinks.registry import parse
from tenure.events.sinks.urls import shown
from tenure.process.clock import SystemClock
from tests.support.secrets import LEFT, PASSWORDS, RIGHT

SECRET = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"


def refusal(url: str, **allowed: bool) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(SinkPlace(url, SystemClock(), **allowed))()
    assert caught.value.__cause__ is None or url not in str(caught.value.__cause__)
    return str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "kafka://host:9092,host2:9092",
        "kafka://host?security.protocol=SSL#prefix=tenure.",
        "redis-streams://host:6379/0#maxlen=10000",
        "rediss-streams://:secret@host?ssl_ca_certs=/ca.pem#stream=all",
        "redis-streams+sentinel://host:26379/service",
        f"webhook+https://host/path?x=y#secret={SECRET}&timeout=5&at_once=2",
        f"webhook+https://[2606:2800::1]:8443#secret={SECRET}&secret={SECRET}",
    ],
)
def test_what_is_right_is_accepted_without_connecting(url: str) -> None:
    assert callable(parse(SinkPlace(url, SystemClock())))


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("", "Known forms: kafka://"),
        ("host:9092", "Known forms: kafka://"),
        ("nats://host", "unknown sink 'nats'"),
        ("kafka://host/topic", "#topic="),
        ("kafka://host#topic=a&prefix=b", "one of the two"),
        ("kafka://host#topic=a%20b", "topic's name cannot have"),
        ("kafka://host#topics=a", "topics= is not known. Known are prefix=, topic="),
        ("kafka://host#topic=", "has no value"),
        ("kafka://host#topic=a&topic=b", "give one"),
        ("kafka://host?acks=1", "acks is set by Tenure"),
        ("kafka://host?enable.idempotence=false", "is set by Tenure"),
        ("kafka://host?plugin.library.paths=/tmp/evil.so", "run other code in this process"),
        ("kafka://host?ssl.engine.location=/tmp/evil.so", "run other code in this process"),
        ("kafka://host?sasl.kerberos.kinit.cmd=sh", "run other code in this process"),
        ("kafka://host?x", "name=value"),
        ("redis-streams://host/name", "as in redis-streams://host:6379/0. #stream= or #prefix="),
        ("redis-streams://host/0/s", "as in redis-streams://host:6379/0. #stream= or #prefix="),
        (
            "redis-streams+sentinel://host/a/s",
            "as in redis-streams+sentinel://host:26379/service/0",
        ),
        ("redis-streams+cluster://host/1", "as in redis-streams+cluster://host:7000"),
        ("redis-streams://host#maxlen=10", "maxlen= must be a number from 1,000"),
        ("redis-streams://host#maxlen=many", "maxlen= must be a number"),
        ("redis-streams://host#stream=a&prefix=b", "one of the two"),
        ("webhook://host", "write webhook+https://"),
        ("webhook+ftp://host", "write webhook+https://"),
        ("webhook+https://host/path", "needs one secret"),
        ("webhook+https://host#secret=hunt3r", "not shown"),
        (f"webhook+http://host#secret={SECRET}", "allow http"),
        (f"webhook+https://host,host2#secret={SECRET}", "one host"),
        (f"webhook+https://host:0#secret={SECRET}", "port below"),
        (f"webhook+https://me:pw@host#secret={SECRET}", "no user and password"),
        (f"webhook+https://host#secret={SECRET}&timeout=0", "timeout= must be a number from 1"),
        ("webhook+https://host#secret_file=/no/such/file", "cannot be read"),
        ("webhook+https://host/ä#secret=x", "cannot be read"),
    ],
)
def test_what_is_wrong_is_refused_with_advice(url: str, advice: str) -> None:
    assert advice in refusal(url)


@pytest.mark.parametrize(
    "form",
    [
        "kafka://app:{}@127.0.0.1:1",
        "kafka://127.0.0.1:1?sasl.password={}",
        "redis-streams://:{}@127.0.0.1:1/0",
        "redis-streams://127.0.0.1:1/0?password={}",
        "webhook+https://host/{}",
        "webhook+https://host/path#secret={}",
        "webhook+https://me:{}@host/path",
        "nats://{}@host",
        "{}://host",
        "{}",
    ],
)
def test_no_secret_is_shown_whatever_is_wrong(form: str) -> None:
    for password in PASSWORDS:
        for url in (form.format(password), form.format(quote(password, safe=""))):
            told = [shown(url), repr(SinkPlace(url, SystemClock()))]
            try:
                sink = parse(SinkPlace(url, SystemClock()))()
            except ConfigError as error:
                told += [str(error), repr(error.__cause__)]
            else:
                told += [sink.location, repr(sink)]
            for text in told:
                assert LEFT not in text, (form, password)
                assert RIGHT not in text, (form, password)


@pytest.mark.parametrize(
    ("query", "advice"),
    [
        ("no.such.setting=1", "it does not know 'no.such.setting'"),
        ("linger.ms=hunt3r", "wrong value"),
        ("security.protocol=hunt3r", "wrong value"),
    ],
)
async def test_settings_that_librdkafka_does_not_take_are_refused(query: str, advice: str) -> None:
    sink = parse(SinkPlace(f"kafka://host?{query}", SystemClock()))()
    with pytest.raises(ConfigError, match=advice) as caught:
        await sink.open()
    assert "hunt3r" not in str(caught.value)
    assert caught.value.__context__ is None


def test_secrets_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text(f"{SECRET}\n{SECRET}\n")
    assert callable(parse(SinkPlace(f"webhook+https://host#secret_file={file}", SystemClock())))
    file.write_text("")
    assert "this URL has 0" in refusal(f"webhook+https://host#secret_file={file}")


# -- from other packages --------------------------------------------------------------------------


def _entry(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    entries = [EntryPoint("mine", value, entry_points.GROUP) for value in values]
    monkeypatch.setattr(entry_points, "entry_points", lambda group: entries)


def _fails(place: SinkPlace) -> object:
    raise RuntimeError(place.url)


MINE = SinkScheme(lambda place: object)  # type: ignore[arg-type,return-value]
FAILING = SinkScheme(_fails)  # type: ignore[arg-type]
HERE = "tests.unit.events.test_sink_urls"


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (f"{HERE}:MINE", "makes a object that lacks location, lane, open, send, close"),
        (f"{HERE}:FAILING", "failed on this URL: RuntimeError"),
        (f"{HERE}:HERE", "offers a str, not a SinkScheme"),
        (f"{HERE}:NOTHING", "cannot be loaded: AttributeError"),
        ("no_such_package:SCHEME", "needs the package 'no_such_package'"),
    ],
)
def test_what_is_wrong_with_another_package_is_told(
    monkeypatch: pytest.MonkeyPatch, value: str, complaint: str
) -> None:
    _entry(monkeypatch, value)
    told = refusal("mine://hunt3r")
    assert complaint in told
    assert "hunt3r" not in told


def test_two_packages_with_one_scheme_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _entry(monkeypatch, f"{HERE}:MINE", f"{HERE}:MINE")
    assert "Uninstall all but one" in refusal("mine://x")


def test_others_cannot_replace_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint("kafka", f"{HERE}:FAILING", entry_points.GROUP)]
    monkeypatch.setattr(entry_points, "entry_points", lambda group: entries)
    assert callable(parse(SinkPlace("kafka://host", SystemClock())))
