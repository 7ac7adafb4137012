"""CPU of workers and of those who start them, where workers are replaced before anybody looked at them."""

from __future__ import annotations

import pytest

from tuner.adapters.proc.cpu_accounts import MasterAccount
from tuner.adapters.proc.process_tree import ProcessStat

MASTER = 40


def process(pid: int, parent: int, own: int, reaped: int = 0) -> ProcessStat:
    return ProcessStat(pid, "celery", "S", parent, 0, own, reaped, 1, 5 + pid)


def look(account: MasterAccount, master: ProcessStat, *workers: ProcessStat) -> None:
    account.look(workers, {one.pid: one for one in (master, *workers)})


def test_what_a_master_used_itself_is_no_workers_and_no_childs() -> None:
    account = MasterAccount()
    look(account, process(MASTER, 1, own=30), process(50, MASTER, 100), process(51, MASTER, 90))
    look(account, process(MASTER, 1, own=45), process(50, MASTER, 130), process(51, MASTER, 140))

    assert (account.own_ticks, account.unseen_ticks) == (45, 0)


def test_programs_that_are_the_workers_have_no_master() -> None:
    account = MasterAccount()
    account.look([process(50, 1, 100)], {50: process(50, 1, 100)})

    assert (account.own_ticks, account.unseen_ticks) == (0, 0)


def test_what_starts_a_master_is_one() -> None:
    """uv run, then the master."""
    account = MasterAccount()
    worker, master, runner = process(50, MASTER, 100), process(MASTER, 30, 20), process(30, 1, 5)
    account.look([worker], {one.pid: one for one in (worker, master, runner)})

    assert account.own_ticks == 25


def test_what_workers_used_after_the_last_look_at_them_is_theirs() -> None:
    """50 is seen with 100 ticks and ends with 140; another ends that nobody saw, with 60."""
    account = MasterAccount()
    look(account, process(MASTER, 1, own=3), process(50, MASTER, 100))
    look(account, process(MASTER, 1, own=4, reaped=200), process(52, MASTER, 10))

    assert account.unseen_ticks == pytest.approx(100)


def test_of_what_nobody_saw_children_of_items_have_the_part_that_they_had_of_what_was_seen() -> None:
    """Seen: 100 ticks of the worker's own, and 300 of children that it waited for."""
    account = MasterAccount()
    look(account, process(MASTER, 1, own=3), process(50, MASTER, 100, reaped=300))
    look(account, process(MASTER, 1, own=4, reaped=800), process(52, MASTER, 0))

    assert account.unseen_ticks == pytest.approx(100)


def test_what_a_master_reaped_before_it_had_workers_is_nobodys() -> None:
    account = MasterAccount()
    look(account, process(MASTER, 1, own=3, reaped=70), process(50, MASTER, 100))
    look(account, process(MASTER, 1, own=4, reaped=70), process(50, MASTER, 200))

    assert account.unseen_ticks == 0


def test_it_only_grows() -> None:
    account, reported = MasterAccount(), []
    for n in range(20):
        look(account, process(MASTER, 1, own=n, reaped=35 * n), process(100 + n, MASTER, 10 * (n % 3)))
        reported.append(account.unseen_ticks)

    assert reported == sorted(reported)
