"""URLs of stores, as people may see them: without a password, or not at all.

Whatever prints a URL prints `shown(url)`. A URL that cannot be taken apart beyond doubt is not
shown, since any part of it may be a part of the password: only its scheme is.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from tenure.errors import ConfigError

HIDDEN = "…"
REDIS = ("redis", "rediss", "unix")
POSTGRES = ("postgres", "postgresql")
# Digits only in the name of a driver: something else that has :// in it is not shown as a scheme.
_SCHEME = re.compile(r"(?P<family>[A-Za-z][A-Za-z.-]{0,39})(?:\+(?P<driver>[A-Za-z0-9_]+))?://")
_CHARACTER = r"(?:[\w.~+-]|%[0-9A-Fa-f]{2})"
_HOST = rf"(?:{_CHARACTER}*|\[[0-9A-Za-z:.%]+\])(?::[0-9]{{1,5}})?"
_REST = re.compile(
    # A password may have anything but what ends it. An @ further on may be its own: not shown.
    rf"(?:(?P<user>{_CHARACTER}*)(?P<password>:[^@/?]*)?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)"
    rf"(?P<path>(?:/{_CHARACTER}*)*)"
    r"(?:\?(?P<query>[^@#?\s]*))?"
)
_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:.*@)?(?:[^\s\"'()<>,;]|,(?=\w))*")
_HARMLESS = {
    *("host", "hostaddr", "port", "dbname", "user", "passfile", "service", "sslmode", "sslcert"),
    *("sslkey", "sslrootcert", "sslcrl", "sslnegotiation", "gssencmode", "krbsrvname"),
    *("channel_binding", "require_auth", "target_session_attrs", "load_balance_hosts"),
    *("connect_timeout", "application_name"),
    *("db", "ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs"),
    *("ssl_check_hostname", "protocol", "socket_timeout", "socket_connect_timeout"),
}
"""Settings after the `?` that are no secret: of libpq, and of redis-py."""
_FILE = re.compile(r"[\w./-]+\.(?:db|db3|sqlite|sqlite3)")
_ENCODING = (
    "In its parts write / as %2F, @ as %40, : as %3A, % as %25, ? as %3F, # as %23, [ as %5B, & as"
    " %26 and = as %3D"
)


def scheme_of(url: str) -> str:
    """What comes before the ://, in small letters and without a driver; "" if there is none."""
    found = _SCHEME.match(url)
    return found["family"].lower() if found else ""


def shown(url: str) -> str:
    """The URL for people: without password and settings; of one that cannot be read, nothing."""
    found = _SCHEME.match(url)
    if not found:
        return HIDDEN
    family, driver, rest = found["family"].lower(), found["driver"], url[found.end() :]
    scheme = f"{family}+{driver}" if driver in ("sentinel", "cluster") else family
    if family == "sqlite":
        return f"sqlite://{rest.partition('?')[0]}" if _is_path(rest) else f"sqlite://{HIDDEN}"
    parts = _REST.fullmatch(rest)
    if parts is None:
        return f"{scheme}://{HIDDEN}"
    # Redis: what stands before the @ alone is a user to redis-py, and meant as a password by many.
    user = f"{parts['user']}@" if parts["user"] and family not in REDIS else ""
    return f"{scheme}://{user}{parts['hosts']}{parts['path']}"


def without_passwords(text: str) -> str:
    """Somebody's text, such as lines of code in a traceback, with the URLs in it as `shown`.

    Where a password ends cannot be known there: it may go on to the last @ of the line.
    """
    return _IN_TEXT.sub(lambda found: shown(found[0]), text)


def is_public(url: str) -> bool:
    """Has it nothing to hide, so that it may be part of a command that is suggested?"""
    rest = url.partition("://")[2]
    if scheme_of(url) == "sqlite":
        return _is_path(rest) and "?" not in rest
    parts = _REST.fullmatch(rest) if _SCHEME.match(url) else None
    if parts is None or parts["password"] is not None:
        return False
    if parts["user"] and scheme_of(url) in REDIS:
        return False
    settings = [pair for pair in (parts["query"] or "").split("&") if pair]
    return all(pair.partition("=")[0] in _HARMLESS for pair in settings)


def file_in(text: str) -> str | None:
    """The text, if it is a file's name beyond doubt: then it can be repeated in a hint."""
    return text if _FILE.fullmatch(text) else None


def sqlite_path(url: str) -> Path:
    """The file that a sqlite:// URL names."""
    whole = url.partition("://")[2]
    rest = whole.partition("?")[0]
    if rest and not rest.startswith("/"):
        name = file_in(rest)
        example = name or "jobs.db"
        raise ConfigError(
            f"{f'sqlite://{name}' if name else 'this sqlite:// URL'} has two slashes where three"
            f" are needed: write sqlite:///{example} for a file beside the program, or"
            f" sqlite:////{example} for an absolute path."
        )
    path = unquote(rest[1:])
    if path in ("", ":memory:"):
        raise ConfigError(
            f"{shown(url)} names no file. A SQLite database in memory belongs to one connection"
            " and cannot be shared; use memory:// for tests, or a file such as"
            " sqlite:///tenure.db."
        )
    if not _is_path(whole) or "\0" in path:
        raise ConfigError(
            "this sqlite:// URL does not name a file: it has user and password, as the URL of a"
            " server has, or characters that no name has. Write sqlite:///relative/path.db or"
            " sqlite:////absolute/path.db."
        )
    return Path(path)


def of_sqlite(path: Path) -> str:
    """The URL of a file: what `sqlite_path` reads as that path, printable whatever its name is."""
    text = "".join(c if c.isprintable() and c not in "%?#" else _encoded(c) for c in str(path))
    return f"sqlite:///{text}"


def check_server(url: str) -> None:
    """Refuse what a driver would take apart in the wrong place, and then tell of in its errors."""
    scheme, rest = scheme_of(url), url.partition("://")[2]
    if ":***@" in rest:
        raise ConfigError(
            f"this {scheme}:// URL has *** in place of its password, as str() of SQLAlchemy's URL"
            " has. Give the engine itself, or url.render_as_string(hide_password=False)."
        )
    if (_REDIS if scheme in REDIS else _POSTGRES).fullmatch(rest) is None:
        form = "redis://:password@host:6379/0" if scheme in REDIS else _POSTGRES_FORM
        raise ConfigError(
            f"this {scheme}:// URL cannot be read, and is not shown since it may have a password."
            f" The form is {form}. {_ENCODING}."
        )


def _is_path(path: str) -> bool:
    """A path, and not what looks like user:password@host in its place? C:/ is one."""
    return path.startswith("/") and not re.match(r"(?s)/(?![A-Za-z]:/)[^/]*:.*@", path)


def _encoded(character: str) -> str:
    raw = character.encode("utf-8", "surrogateescape")
    return "".join(f"%{byte:02X}" for byte in raw)


_POSTGRES_FORM = "postgresql://user:password@host:5432/database"
_VALID = r"(?:[^%{0}]|%[0-9A-Fa-f]{{2}})*"
_POSTGRES = re.compile(  # as libpq reads it: user and password end at the first @ before any /
    rf"(?:{_VALID.format(':@/?')}(?::{_VALID.format('@/?')})?@)?"
    rf"{_HOST}(?:,{_HOST})*"
    rf"(?:/{_VALID.format('@?')})?"
    rf"(?:\?(?:[a-z_]+={_VALID.format('&=@')}(?:&[a-z_]+={_VALID.format('&=@')})*)?)?"
)
_REDIS = re.compile(  # what comes before the last @ and any / ? #
    rf"(?:[^/?#]*@)?{_HOST}(?:,{_HOST})*(?:/[^?#@]*)?(?:\?[^#@]*)?"
)
