"""The URLs of sinks: `scheme://user:password@host:port/path?theirs#ours`.

What follows the `?` is for the other side: the receiver, redis-py or librdkafka. What follows the
`#` is for Tenure, and never leaves this process. People see the scheme and the hosts: a path or a
user may be a token.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from tenure.backends.urls import HIDDEN, is_word
from tenure.errors import ConfigError

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9.-]{0,39}(?:\+[A-Za-z0-9_]{1,20})?)://")
_HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_REST = re.compile(
    rf"(?:(?P<credentials>[^@/?#]*)@)?(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?P<path>/[!-~]*?)?(?:\?(?P<query>[!-~]*?))?(?:\#(?P<options>[!-~]*))?"
)
_NAME = re.compile(r"[a-z_]{1,30}")


@dataclass(frozen=True, slots=True)
class SinkUrl:
    """A URL, taken apart. Nothing is decoded, except the options."""

    scheme: str
    """In lower case."""
    credentials: str | None = field(repr=False)
    hosts: str
    path: str = field(repr=False)
    query: str = field(repr=False)
    options: Mapping[str, tuple[str, ...]] = field(repr=False)
    """What is for Tenure; a name may have several values."""

    @property
    def location(self) -> str:
        return f"{self.scheme}://{self.hosts}"

    def option(self, name: str) -> str | None:
        """The value of an option that is given at most once."""
        values = self.options.get(name, ())
        if len(values) > 1:
            raise ConfigError(f"{self.location}: {name}= is given {len(values)} times; give one.")
        return values[0] if values else None

    def number(self, name: str, default: float, least: float, most: float) -> float:
        text = self.option(name)
        if text is None:
            return default
        is_number = re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", text)
        if not is_number or not least <= float(text) <= most:
            raise ConfigError(
                f"{self.location}: {name}= must be a number from {least:,g} to {most:,g}."
            )
        return float(text)


def scheme_of(url: str) -> str:
    """What comes before the ://, in lower case; "" if there is none."""
    found = _SCHEME.match(url)
    return found["scheme"].lower() if found else ""


def split(url: str, form: str, options: Collection[str]) -> SinkUrl:
    """Take a URL apart; `ConfigError` if it cannot be read, or has options that are not known."""
    scheme, found = scheme_of(url), _certain(url)
    if found is None:
        raise ConfigError(
            f"this {scheme}:// URL cannot be read, and is not shown since it may have a password."
            f" The form is {form}. Write all but ASCII letters, digits and -._~ in a user, password"
            " or option percent-encoded: / as %2F, @ as %40, # as %23."
        )
    location = f"{scheme}://{found['hosts']}"
    return SinkUrl(
        scheme,
        found["credentials"],
        found["hosts"],
        found["path"] or "",
        found["query"] or "",
        _options(found["options"] or "", location, options),
    )


def shown(url: str) -> str:
    """The URL for people: scheme and hosts, or only the scheme if it cannot be read."""
    scheme, found = scheme_of(url), _certain(url)
    if not is_word(scheme.partition("+")[0]):  # one with digits may be part of a password
        return HIDDEN
    return f"{scheme}://{HIDDEN if found is None else found['hosts']}"


def _certain(url: str) -> re.Match[str] | None:
    """Its parts, if it is certain where the password ends: no @ comes later."""
    found = _REST.fullmatch(url.partition("://")[2])
    if found is None or any("@" in (found[part] or "") for part in ("path", "query", "options")):
        return None
    return found


def _options(text: str, location: str, known: Collection[str]) -> dict[str, tuple[str, ...]]:
    options: dict[str, tuple[str, ...]] = {}
    for pair in filter(None, text.split("&")):
        name, given, value = pair.partition("=")
        if name not in known or not given or not value:
            what = f"{name}=" if _NAME.fullmatch(name) and given else "what is there"
            problem = "has no value" if name in known else "is not known"
            raise ConfigError(
                f"{location}: after the # come options for Tenure, and {what} {problem}. Known are"
                f" {', '.join(f'{each}=' for each in sorted(known))}, separated by &."
            )
        options[name] = (*options.get(name, ()), unquote(value))
    return options
