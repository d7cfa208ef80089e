"""What a relay is said to be: checked at once, without connecting to anything."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import ConfigError, InvalidEvent, Relay, Scheduler
from tenure.events.relay import check_relays

SECRET = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"


def test_defaults() -> None:
    relay = Relay("kafka://user:secret@broker:9092", topics=["a", "b", "a"])
    assert (relay.name, relay.topics) == ("kafka", ("a", "b"))
    assert relay.location == "kafka://broker:9092"
    assert "secret" not in repr(relay)
    assert (relay.policy.batch, relay.policy.window, relay.policy.tries) == (1_000, 2_000, 10)
    assert Relay(f"webhook+https://host/path#secret={SECRET}").name == "webhook"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": "nothing"}, "not a URL"),
        ({"url": "webhook+http://host/"}, "http"),
        ({"topics": "ledger"}, "list of names"),
        ({"name": "x" * 101}, "1 to 100"),
        ({"name": "a\nb"}, "printable"),
        ({"tries": 0}, "tries must be between 1 and"),
        ({"tries": True}, "tries must be between 1 and"),
        ({"batch": 10_001}, "batch must be between 1 and"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Relay(**{"url": "kafka://broker", **given})


def test_topics_are_checked() -> None:
    with pytest.raises(InvalidEvent, match="a topic's name"):
        Relay("kafka://broker", topics=["a b"])


def test_relays_of_a_process_have_names_of_their_own() -> None:
    with pytest.raises(ConfigError, match="two relays are named 'kafka'"):
        Scheduler("memory://", relays=[Relay("kafka://a"), Relay("kafka://b")])
    with pytest.raises(ConfigError, match="Relay"):
        check_relays(["kafka://a"])  # type: ignore[list-item]
    scheduler = Scheduler("memory://", relays=[Relay("kafka://a"), Relay("kafka://b", name="b")])
    assert [relay.name for relay in scheduler.relays] == ["kafka", "b"]
