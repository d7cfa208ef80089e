"""A Redis client of the application's, with a setting that it cannot have itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tenure.backends.engines import made_by
from tenure.errors import ConfigError

PREFIX = "tenure"


@dataclass(frozen=True, slots=True)
class RedisClient:
    """A client of redis-py or valkey-py, wherever one is taken, and what the names of Tenure's keys
    and channels begin with."""

    client: object = field(repr=False)
    prefix: str = PREFIX

    def __post_init__(self) -> None:
        if not made_by(self.client, "redis", "valkey"):
            raise ConfigError(
                f"RedisClient takes a client of redis-py or valkey-py, not"
                f" {type(self.client).__qualname__}."
            )
        check_prefix(self.prefix)


def check_prefix(given: object) -> str:
    text = str(given)
    if re.fullmatch(r"[\w.:/-]{1,50}", text, re.ASCII) is None or text.endswith(":"):
        raise ConfigError(
            "the prefix for this Redis must be 1 to 50 letters, digits or any of . : / _ -, and"
            " not end with a colon, such as ?prefix=shop:locks. Keys are then named"
            " shop:locks:{namespace}:…"
        )
    return text
