"""Signed cookies, and the proof that a form is one of ours.

A session is its own record: number, end and signature. The key comes from the token, so several
processes accept each other's sessions, and a new token ends them all. Logging out is remembered by
the process that was asked.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from tenure.process.clock import Clock

LASTS = 12 * 3600
COOKIE = "tenure_session"
FORMS = "tenure_forms"
"""The cookie of those who need no session: a random text, to which their forms are bound. It is
with the browser, so that a form of one process is known to the others."""
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    number: str
    ends: int

    @property
    def text(self) -> str:
        return f"{self.number}.{self.ends}"


class Sessions:
    """Makes sessions and recognises them."""

    def __init__(self, token: str | None, clock: Clock) -> None:
        self._token = None if token is None else token.encode()
        self._key = hashlib.sha256(b"tenure dashboard\0" + (self._token or b"")).digest()
        self._clock = clock
        self._ended: dict[str, int] = {}

    def is_token(self, given: str) -> bool:
        """In constant time."""
        return self._token is not None and hmac.compare_digest(given.encode(), self._token)

    def begin(self) -> tuple[Session, str]:
        """A new session, and its cookie."""
        session = Session(secrets.token_urlsafe(16), self._now() + LASTS)
        return session, f"{session.text}.{self._sign('session', session.text)}"

    def read(self, cookie: str | None) -> Session | None:
        text, _, signature = (cookie or "").rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("session", text).encode()):
            return None
        number, _, ends = text.partition(".")
        session = Session(number, int(ends))
        return None if session.ends <= self._now() or number in self._ended else session

    def end(self, session: Session) -> None:
        """Its cookie is refused from now on, wherever a copy was kept."""
        now = self._now()
        self._ended = {number: ends for number, ends in self._ended.items() if ends > now}
        if len(self._ended) < _REMEMBERED:
            self._ended[session.number] = session.ends

    def proof(self, bound: str) -> str:
        """What a form of ours sends along. A page elsewhere can send forms, but not read this."""
        return self._sign("form", bound)

    def is_proof(self, given: str, bound: str) -> bool:
        return hmac.compare_digest(given.encode(), self.proof(bound).encode())

    def mark(self, said: str, bound: str) -> str:
        """Goes with a message to the next page, so that a link cannot make us say things."""
        return self._sign("said", f"{bound}\0{said}")

    def is_mark(self, given: str, said: str, bound: str) -> bool:
        return hmac.compare_digest(given.encode(), self.mark(said, bound).encode())

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()

    def _now(self) -> int:
        return int(self._clock.now().timestamp())
