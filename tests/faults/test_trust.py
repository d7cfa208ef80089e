"""The checker of locks itself: it sees two holders at once, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.support import Journal
from tests.faults.trust import trusted_twice


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "journal")
    _trusts(journal, term=1, boot=10.0, until=12.0)
    _trusts(journal, term=1, boot=11.0, until=13.0)
    return journal


def _trusts(journal: Journal, **values: float) -> None:
    journal.write("trusts", "somebody", **values)


def test_one_after_the_other_is_right(journal: Journal) -> None:
    _trusts(journal, term=2, boot=13.0, until=15.0)
    assert not list(trusted_twice(journal))


def test_both_at_once_is_noticed(journal: Journal) -> None:
    _trusts(journal, term=2, boot=12.9, until=15.0)
    assert len(list(trusted_twice(journal))) == 1


def test_who_let_go_trusts_no_longer(journal: Journal) -> None:
    journal.write("lets go", "somebody", term=1, boot=11.5)
    _trusts(journal, term=2, boot=11.6, until=15.0)
    assert not list(trusted_twice(journal))


def test_who_was_killed_trusts_no_longer(journal: Journal) -> None:
    pid = journal.entries("trusts")[0].pid
    journal.write("killed", "somebody", killed=pid, boot=11.5)
    _trusts(journal, term=2, boot=11.6, until=15.0)
    assert not list(trusted_twice(journal))


def test_who_trusts_again_after_it_ran_out_did_not_in_between(journal: Journal) -> None:
    journal.write("trusts", "another", term=2, boot=13.5, until=14.5)
    _trusts(journal, term=1, boot=15.0, until=17.0)
    assert not list(trusted_twice(journal))
    _trusts(journal, term=3, boot=16.0, until=18.0)
    assert len(list(trusted_twice(journal))) == 1
