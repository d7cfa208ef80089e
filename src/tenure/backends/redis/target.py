"""Where a Redis is: one server, behind Sentinel, or a cluster; from a URL or a client's settings.

    redis://host:6379/0                        rediss://… for TLS, unix:///path
    redis+sentinel://host:26379,host2/service  asks the sentinels for the master of that service
    redis+cluster://host:7000,host2:7000       rediss+sentinel://, rediss+cluster:// for TLS

What follows a `?` is for redis-py, such as ssl_ca_certs; sentinel_username and sentinel_password
are for the sentinels, and prefix is what the names of our keys and channels begin with. An
application's client belongs to its own loop or threads, so only its settings are used.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import quote

import redis.asyncio as redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from tenure.backends.redis.urls import Host, Url, addresses, split
from tenure.backends.redis_client import PREFIX, check_prefix
from tenure.backends.urls import check_redis_database, shown
from tenure.errors import ConfigError

LIMIT = 5.0
TIMES: dict[str, Any] = {"socket_timeout": LIMIT, "socket_connect_timeout": LIMIT}
TEXTS: dict[str, Any] = {"decode_responses": True, "encoding_errors": "surrogateescape"}
"""Bytes that are not UTF-8 can be read, and written back unchanged."""
_DRIVERS = ("redis", "valkey")
_TAKEN = ("db", "username", "password", "path", "credential_provider", "ssl")
_KNOWN = inspect.signature(redis.Redis.__init__).parameters
_PORTS = {"server": 6379, "sentinel": 26379, "cluster": 6379}
Kind = Literal["server", "sentinel", "cluster"]
_KINDS: dict[str, Kind] = {"": "server", "sentinel": "sentinel", "cluster": "cluster"}


@dataclass(frozen=True, slots=True)
class Target:
    """Everything that is needed to connect. Connects to nothing itself."""

    kind: Kind
    hosts: tuple[Host, ...]
    """The server, the sentinels, or nodes of the cluster; none for a socket file."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """User, password, database and TLS, under redis-py's names."""
    service: str = ""
    sentinel_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    prefix: str = PREFIX

    @property
    def tls(self) -> bool:
        return bool(self.options.get("ssl"))

    @property
    def advice(self) -> str:
        """What to check if it does not answer."""
        if self.kind == "sentinel":
            return f"Are the sentinels up, is {self.service!r} their service, has it a master?"
        if self.tls:
            return (
                f"Is {self.location} the right address, and does that port speak TLS? A server that"
                " wants a certificate of its clients: ?ssl_certfile=…&ssl_keyfile=…"
            )
        return f"Is {self.location} the right address? If that port speaks TLS, write rediss://"

    @property
    def location(self) -> str:
        """As a URL, without passwords."""
        return self._place + ("" if self.prefix == PREFIX else f"?prefix={self.prefix}")

    @property
    def _place(self) -> str:
        if "unix_socket_path" in self.options:
            return f"unix://{self.options['unix_socket_path']}"
        scheme = "rediss" if self.tls else "redis"
        hosts = ",".join(_joined(host) for host in self.hosts)
        if self.kind == "cluster":
            return f"{scheme}+cluster://{hosts}"
        database = self.options.get("db") or 0
        if self.kind == "sentinel":
            tail = f"/{database}" if database else ""
            return f"{scheme}+sentinel://{hosts}/{self.service}{tail}"
        return f"{scheme}://{hosts}/{database}"

    def connect(self) -> Any:
        """A client. Connects when it is first used."""
        # Repeat once, at once: a pooled connection may have died since its last use. More retries
        # would hide from our callers that Redis is down; they retry themselves.
        options = {**TIMES, **self.options, **TEXTS, "retry": again(1)}
        try:
            return self._client(options)
        except TypeError as error:  # an option after the `?` that redis-py does not know
            refused = str(error)
        # If the password has an &, the unknown option may be a part of it: do not show it.
        why = "." if "password" in self.options else f": {refused}"
        raise ConfigError(f"{self.location}: redis-py does not take one of the URL's options{why}")

    def _client(self, options: dict[str, Any]) -> Any:
        if self.kind == "cluster":
            # A cluster's client needs retries to follow slots that moved.
            options["retry"] = again(2)
            nodes = [ClusterNode(host, port) for host, port in self.hosts]
            return RedisCluster(startup_nodes=nodes, **options)
        if self.kind == "sentinel":
            redis.Redis(**options)  # refuses wrong options now, not only when it connects
            asking = {**TIMES, "retry": again(0), **self.sentinel_options}
            sentinel: Any = Sentinel(self.hosts, sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
            return sentinel.master_for(self.service, **options)
        address: dict[str, Any] = (
            {"host": self.hosts[0][0], "port": self.hosts[0][1]} if self.hosts else {}
        )
        return redis.Redis(**address, **options)

    def at(self, host: str, port: int) -> Target:
        """One of its servers."""
        options = {name: self.options[name] for name in self.options if name != "address_remap"}
        return Target("server", ((host, port),), options, prefix=self.prefix)


def parse(url: str) -> Target:
    """Read a URL."""
    parts = split(url)
    scheme, _, form = parts.scheme.partition("+")
    kind = _KINDS.get(form)
    if kind is None:
        raise ConfigError(
            f"unknown form {parts.scheme!r} in {shown(url)}; known are redis://, rediss://,"
            " redis+sentinel://, redis+cluster:// and unix://."
        )
    if scheme != "unix":
        check_redis_database(form, parts.path)
    hosts: tuple[Host, ...] = ()
    options: dict[str, Any] = {}
    problem = ""
    try:
        hosts = addresses(parts.hosts, _PORTS[kind])
        options = _options(parts, scheme, kind)
    except ValueError as error:
        # Not as the cause, and only those messages of redis-py's that repeat no value: it may be a
        # part of the password.
        repeats_nothing = not hosts or str(error).startswith("Invalid value for")
        problem = str(error) if repeats_nothing else "what follows the ? in it is wrong"
    if problem:
        raise ConfigError(f"{shown(url)} cannot be read: {problem}")
    empty = "prefix=" in parts.query.split("&")  # which redis-py leaves out
    prefix = check_prefix("" if empty else options.pop("prefix", PREFIX))
    if scheme == "unix":
        return Target("server", (), options, prefix=prefix)
    sentinel = {
        name.removeprefix("sentinel_"): options.pop(name)
        for name in ("sentinel_username", "sentinel_password")
        if name in options
    }
    if kind != "sentinel":
        return Target(kind, hosts, options, prefix=prefix)
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ConfigError(
            "a Sentinel URL names the service, as in redis+sentinel://host:26379,host2:26379/mymaster"
        )
    options["db"] = int(database or 0)
    return Target(kind, hosts, options, service, {**_tls(options), **sentinel}, prefix)


def of(client: Any, prefix: str = PREFIX) -> Target:
    """Where a client of redis-py connects: blocking or not, plain, Sentinel's or a cluster's."""
    return replace(_of(client), prefix=prefix)


def _of(client: Any) -> Target:
    if hasattr(client, "nodes_manager"):
        nodes = client.nodes_manager
        options = _settings(client, nodes.connection_kwargs)
        if getattr(nodes, "address_remap", None) is not None:
            options["address_remap"] = nodes.address_remap
        hosts = tuple((node.host, int(node.port)) for node in nodes.startup_nodes.values())
        return Target("cluster", hosts, options)
    pool = getattr(client, "connection_pool", client)
    given = getattr(pool, "connection_kwargs", None)
    if given is None:
        raise _unusable(client, "it has no connection pool")
    options = _settings(client, {"connection_class": pool.connection_class, **given})
    if hasattr(pool, "sentinel_manager"):
        sentinels = [each.connection_pool for each in pool.sentinel_manager.sentinels]
        asking = _settings(
            client,
            {"connection_class": sentinels[0].connection_class, **sentinels[0].connection_kwargs},
        )
        asking.pop("db", None)
        found = tuple(
            (each.connection_kwargs["host"], int(each.connection_kwargs["port"]))
            for each in sentinels
        )
        return Target("sentinel", found, options, str(pool.service_name), asking)
    if "unix_socket_path" in options:
        return Target("server", (), options)
    return Target(
        "server", ((given.get("host", "localhost"), int(given.get("port", 6379))),), options
    )


def _settings(client: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a client's settings that say where it connects and as whom, not how it is used."""
    kind = given.get("connection_class")
    if kind is not None and kind.__module__.split(".")[0] not in _DRIVERS:
        raise _unusable(client, f"its connections are of {kind.__module__}.{kind.__qualname__}")
    options = {name: given[name] for name in _TAKEN if given.get(name) is not None}
    for name, value in given.items():
        if name.startswith("ssl_") and value not in (None, False) and name not in _KNOWN:
            raise _unusable(
                client, f"{name}= works only with blocking clients, and Tenure's is not one"
            )
        if name.startswith("ssl_") and value is not None and name in _KNOWN:
            options[name] = value
    if "path" in options:
        options["unix_socket_path"] = options.pop("path")
    if kind is not None and "SSL" in kind.__name__:
        options["ssl"] = True
    return options


def _unusable(client: Any, why: str) -> ConfigError:
    return ConfigError(
        f"from this {type(client).__qualname__} no settings can be taken: {why}. Give a URL"
        " instead: redis://host:6379/0, redis+sentinel://host:26379/service or"
        " redis+cluster://host:7000."
    )


def _options(parts: Url, scheme: str, kind: Kind) -> dict[str, Any]:
    """User, password, database and what follows the `?`, read by redis-py itself."""
    # We read the hosts ourselves, and the path unless it is a single server.
    path = parts.path if kind == "server" else ""
    credentials = quote(parts.credentials, safe=":%")
    options = dict(parse_url(f"{scheme}://{credentials}@localhost{path}?{parts.query}"))
    secure = "SSL" in getattr(options.pop("connection_class", None), "__name__", "")
    options = {name: value for name, value in options.items() if name not in ("host", "port")}
    if "path" in options:
        options["unix_socket_path"] = options.pop("path")
    return options | ({"ssl": True} if secure else {})


def _tls(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in options if name == "ssl" or name.startswith("ssl_")}


def _joined(host: Host) -> str:
    name, port = host
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def again(times: int) -> Retry:
    """How often the driver repeats a command by itself."""
    return Retry(NoBackoff(), times)
