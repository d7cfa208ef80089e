"""Signatures by Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`.

While a secret is being replaced there are several; the receiver accepts any of them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from tenure.errors import ConfigError

PREFIX = "whsec_"
SECRET_BYTES = (24, 64)
MOST_SECRETS = 5


def secret(text: str) -> bytes:
    """The key in `whsec_<base64>`; `ConfigError`, which does not show it, if it is none."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    least, most = SECRET_BYTES
    if not text.startswith(PREFIX) or not least <= len(key) <= most:
        raise ConfigError(
            f"a webhook's secret is {PREFIX} followed by {least} to {most} bytes in base64; this"
            " one, which is not shown, is not. Make one with: python -c 'import base64, secrets;"
            f' print("{PREFIX}" + base64.b64encode(secrets.token_bytes(32)).decode())\''
        ) from None
    return key


def signed(keys: Sequence[bytes], identity: str, moment: datetime, body: bytes) -> dict[str, str]:
    """The headers that carry the signatures of this message, one for each key."""
    timestamp = str(int(moment.timestamp()))
    content = f"{identity}.{timestamp}.".encode() + body
    signatures = (
        base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode() for key in keys
    )
    return {
        "webhook-id": identity,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
