"""Signatures that the library of Standard Webhooks accepts; secrets that cannot be any."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta, timezone

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tenure.errors import ConfigError
from tenure.events.sinks.signatures import secret, signed

OLD = "whsec_" + base64.b64encode(b"o" * 32).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"x" * 32).decode()
BODY = '{"snow":"☃"}'.encode()


def test_the_library_accepts_a_signature() -> None:
    headers = signed([secret(NEW)], "event-1", datetime.now(UTC), BODY)
    assert Webhook(NEW).verify(BODY, headers) == {"snow": "☃"}


def test_zones_do_not_matter() -> None:
    there = datetime.now(timezone(timedelta(hours=9)))
    Webhook(NEW).verify(BODY, signed([secret(NEW)], "event-1", there, BODY))


def test_while_a_secret_is_replaced_both_are_accepted() -> None:
    headers = signed([secret(NEW), secret(OLD)], "event-1", datetime.now(UTC), BODY)
    Webhook(NEW).verify(BODY, headers)
    Webhook(OLD).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(BODY, headers)


def test_a_changed_body_or_id_is_not_accepted() -> None:
    headers = signed([secret(NEW)], "event-1", datetime.now(UTC), BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(BODY + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(BODY, {**headers, "webhook-id": "event-2"})


@pytest.mark.parametrize(
    "wrong",
    ["hunt3r", "whsec_", "whsec_hunt3r", "whsec_" + "A" * 20, OLD[6:], "whsec_" + "A" * 200],
)
def test_what_is_no_secret_is_refused_and_not_shown(wrong: str) -> None:
    with pytest.raises(ConfigError, match="whsec_") as caught:
        secret(wrong)
    assert wrong == "whsec_" or wrong not in str(caught.value)
    assert caught.value.__cause__ is None
