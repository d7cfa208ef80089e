"""The URLs of stores, as people may see them: without passwords.

All output shows `shown(url)`. If it is not certain where the password ends, only the scheme is
shown, since any other part may belong to the password.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from tenure.errors import ConfigError

HIDDEN = "…"
REDIS = ("redis", "rediss", "unix")
POSTGRES = ("postgres", "postgresql")
_READ = (*REDIS, *POSTGRES, "memory", "http", "https")
"""Schemes whose URLs have secrets only in known places; web pages are here because texts contain
them. In any other URL the user, the path or anything else may be a token."""
_SCHEME = re.compile(r"(?P<family>[A-Za-z][A-Za-z0-9.-]{0,39})(?:\+(?P<driver>[A-Za-z0-9_]+))?://")
_WORD = re.compile(r"[A-Za-z.-]+")
_CHARACTER = r"(?:[\w.~+-]|%[0-9A-Fa-f]{2})"
_HOST = rf"(?:{_CHARACTER}*|\[[0-9A-Za-z:.%]+\])(?::[0-9]{{1,5}})?"
_REST = re.compile(
    # A password ends at the first of these. An @ further on may be its own: then it is not shown.
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
    *("ssl_check_hostname", "protocol", "socket_timeout", "socket_connect_timeout", "prefix"),
}
"""libpq's and redis-py's settings after the `?` that are not secret."""
_FILE = re.compile(r"[\w./-]+\.(?:db|db3|sqlite|sqlite3)")
_ENCODING = (
    "In its parts write / as %2F, @ as %40, : as %3A, % as %25, ? as %3F, # as %23, [ as %5B, & as"
    " %26 and = as %3D"
)


def scheme_of(url: str) -> str:
    """What comes before the ://, in lower case and without a driver; "" if there is none."""
    found = _SCHEME.match(url)
    return found["family"].lower() if found else ""


def is_word(scheme: str) -> bool:
    """May an unknown scheme be shown? One with digits may be part of a password."""
    return _WORD.fullmatch(scheme) is not None


def shown(url: str) -> str:
    """The URL for people, without password and settings; only the scheme if it cannot be read, or
    is not one of Tenure's own."""
    found = _SCHEME.match(url)
    if not found:
        return HIDDEN
    family, driver, rest = found["family"].lower(), found["driver"], url[found.end() :]
    if not is_word(family):
        return HIDDEN
    scheme = f"{family}+{driver}" if driver in ("sentinel", "cluster") else family
    if family == "sqlite":
        return f"sqlite://{rest.partition('?')[0]}" if _is_path(rest) else f"sqlite://{HIDDEN}"
    parts = _REST.fullmatch(rest) if family in _READ else None
    if parts is None:
        return f"{scheme}://{HIDDEN}"
    # Redis: redis-py reads a single word before the @ as a user, but many mean it as a password.
    user = f"{parts['user']}@" if parts["user"] and family in POSTGRES else ""
    return f"{scheme}://{user}{parts['hosts']}{parts['path']}"


def without_passwords(text: str) -> str:
    """A text, such as lines of code in a traceback, with the URLs in it as `shown`.

    It cannot be known where a password ends there: it may go on to the last @ of the line.
    """
    return _IN_TEXT.sub(lambda found: shown(found[0]), text)


def is_public(url: str) -> bool:
    """Is it free of secrets, so that a suggested command may contain it?"""
    rest = url.partition("://")[2]
    if scheme_of(url) == "sqlite":
        return _is_path(rest) and "?" not in rest
    parts = _REST.fullmatch(rest) if scheme_of(url) in _READ else None
    if parts is None or parts["password"] is not None:
        return False
    if parts["user"] and scheme_of(url) not in POSTGRES:
        return False
    settings = [pair for pair in (parts["query"] or "").split("&") if pair]
    return all(pair.partition("=")[0] in _HARMLESS for pair in settings)


def file_in(text: str) -> str | None:
    """The text, if it certainly is a file name: then a hint may repeat it."""
    return text if _FILE.fullmatch(text) else None


def sqlite_path(url: str) -> Path:
    """The file that a sqlite:// URL names."""
    whole = url.partition("://")[2]
    rest, question, _ = whole.partition("?")
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
            "this sqlite:// URL does not name a file: it has a user and password, like the URL of a"
            " server, or characters that no file name has. Write sqlite:///relative/path.db or"
            " sqlite:////absolute/path.db."
        )
    if path.lower().startswith("file:"):
        raise ConfigError(
            "this sqlite:// URL has a file: URI in place of a path, and Tenure would create files"
            " of that name. Write sqlite:///relative/path.db or sqlite:////absolute/path.db. A"
            " database in memory cannot be shared: for tests use memory://."
        )
    if question:
        raise ConfigError(
            f"{shown(url)} is followed by ? and parameters, and a SQLite URL has none here: leave"
            f" them out ({shown(url)}). If ? belongs to the file's name, write it as %3F."
        )
    return Path(path)


def of_sqlite(path: Path) -> str:
    """The URL of a file, which `sqlite_path` turns into that path; printable for any file name."""
    text = "".join(c if c.isprintable() and c not in "%?#" else _encoded(c) for c in str(path))
    return f"sqlite:///{text}"


def check_server(url: str) -> None:
    """Refuse a URL that a driver would split in the wrong place, and then show in its errors."""
    scheme, rest = scheme_of(url), url.partition("://")[2]
    if ":***@" in rest:
        raise ConfigError(
            f"this {scheme}:// URL has *** in place of its password, as str() of SQLAlchemy's URL"
            " has. Give the engine itself, or url.render_as_string(hide_password=False)."
        )
    found = (_REDIS if scheme in REDIS else _POSTGRES).fullmatch(rest)
    if found is None:
        form = "redis://:password@host:6379/0" if scheme in REDIS else _POSTGRES_FORM
        raise ConfigError(
            f"this {scheme}:// URL cannot be read, and is not shown since it may have a password."
            f" The form is {form}. {_ENCODING}."
        )
    if scheme in ("redis", "rediss"):
        check_redis_database(url.partition("://")[0].partition("+")[2], found["path"] or "")


def check_redis_database(form: str, path: str) -> None:
    """Refuse a database that redis-py would pass over in silence, to use number 0 instead."""
    if is_redis_database(form, path):
        return
    if form == "cluster":
        raise ConfigError(
            "this Redis URL names a database, and a cluster has only database 0. Write"
            " redis+cluster://host:7000, and use namespace= to keep applications apart."
        )
    form = "redis+sentinel://host/service/0" if form else "redis://host/0"
    raise ConfigError(
        f"the database in this Redis URL is not a number. Write {form}, and use namespace= to"
        " give leases a place with a name."
    )


def is_redis_database(form: str, path: str) -> bool:
    """Is a URL's path one that redis-py understands?"""
    if form == "cluster":
        return path in ("", "/", "/0")
    before = "(?:/[^/]*)?" if form else ""
    return re.fullmatch(rf"{before}(?:/[0-9]{{0,9}})?/?", path) is not None


def _is_path(path: str) -> bool:
    """Is it a path, and not user:password@host? C:/ is a path."""
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
    rf"(?:[^/?#]*@)?{_HOST}(?:,{_HOST})*(?P<path>/[^?#@]*)?(?:\?[^#@]*)?"
)
