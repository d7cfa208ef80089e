"""Tests of leases that are worth repeating on every kind of store."""

from __future__ import annotations

import pytest

everywhere = pytest.mark.parametrize("url", ["sqlite", "postgres", "valkey"], indirect=True)
