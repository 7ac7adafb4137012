from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tuner.adapters.fleet.frames import Frame, OrderEvent, pack_news
from tuner.adapters.fleet.ledger import Ledger, Seen
from tuner.core.domain.fleet import (
    Began,
    BoxCame,
    BoxFacts,
    BoxWent,
    Ended,
    Lost,
    News,
    Order,
    Place,
    Refused,
    Sampled,
    Warned,
)
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import LaunchRecord
from tuner.core.domain.strategy import Proposal

from ..wording import wording

ONE = Seen("tcp://1", "worker-1", BoxFacts("box-1", 4.0, Provenance()), ("host-1", "boot", "lock"))
TWO = Seen("tcp://2", "worker-2", BoxFacts("box-2", 4.0, Provenance()), ("host-2", "boot", "lock"))
LAUNCH = LaunchRecord(0, 0, 1, Layout(1, 1), "box-1", 1.0, None, None, None)


def order(name: str = "o", box: str = "box-1") -> Order:
    return Order(name, Place(0, 0, box, Proposal(Layout(1, 1), 10.0)), 1)


@pytest.fixture
def ledger() -> Ledger:
    """Of two boxes, the first of which has an order."""
    made = Ledger()
    assert list(made.look([ONE, TWO])) == [BoxCame(ONE.facts), BoxCame(TWO.facts)]
    assert made.sent(order()) is ONE
    return made


def heard(ledger: Ledger, n: int, news: News | None, *, name: str = "o", **result: Any) -> list[News]:
    frame = None if news is None else Frame(5.0, pack_news(news))
    address = result.pop("address", ONE.address)
    return [one for _, one in ledger.heard(OrderEvent(name, n, frame, **result), address)]


def test_a_launch_is_reported_from_its_beginning_to_its_end(ledger: Ledger) -> None:
    assert heard(ledger, 0, Began("o", LAUNCH)) == [Began("o", LAUNCH)]
    assert ledger.busy_boxes() == {"box-1"}
    assert heard(ledger, 1, Ended("o", LAUNCH)) == [Ended("o", LAUNCH)]
    assert ledger.busy_boxes() == frozenset()
    assert heard(ledger, 2, None) == []


def test_what_is_reported_twice_counts_once(ledger: Ledger) -> None:
    heard(ledger, 0, Began("o", LAUNCH))

    assert heard(ledger, 0, Began("o", LAUNCH)) == []
    assert heard(ledger, 1, Ended("o", LAUNCH)) == [Ended("o", LAUNCH)]


def test_an_order_of_which_news_are_missing_is_lost_once_its_box_is_free(ledger: Ledger) -> None:
    heard(ledger, 0, Began("o", LAUNCH))

    assert heard(ledger, 2, Ended("o", LAUNCH)) == []
    assert ledger.broken() == ["o"]
    assert heard(ledger, 3, None) == [Lost("o", wording("fleet.news-were-lost"))]
    assert ledger.broken() == []


def test_news_that_cannot_be_read_make_an_order_lost(ledger: Ledger) -> None:
    assert list(ledger.heard(OrderEvent("o", 0, Frame(1.0, b"nothing")), ONE.address)) == []

    (lost,) = heard(ledger, 1, None)
    assert isinstance(lost, Lost)
    assert "cannot be read" in lost.why


def test_a_twin_is_not_heard(ledger: Ledger) -> None:
    assert heard(ledger, 0, Ended("o", LAUNCH), address=TWO.address) == []
    assert heard(ledger, 0, None, name="another") == []


def test_nothing_is_reported_of_an_order_that_was_given_up_until_its_box_is_free(ledger: Ledger) -> None:
    assert ledger.give_up("o")

    assert heard(ledger, 0, Began("o", LAUNCH)) == []
    assert heard(ledger, 1, None, why="it was given up") == [BoxCame(ONE.facts)]


def test_an_order_that_is_over_cannot_be_given_up(ledger: Ledger) -> None:
    heard(ledger, 0, Refused("o", "no service", None))

    assert not ledger.give_up("o")
    assert heard(ledger, 1, None) == []
    assert not ledger.give_up("another")


def test_a_process_that_ends_without_a_word_makes_its_order_lost(ledger: Ledger) -> None:
    assert heard(ledger, 0, None, why="signal SIGKILL") == [Lost("o", "signal SIGKILL")]


def test_what_a_process_says_of_its_loss_is_reported_once_it_is_gone(ledger: Ledger) -> None:
    assert heard(ledger, 0, Lost("o", wording("fleet.no-port-is-free"))) == []
    assert heard(ledger, 1, None, why="exit code 1") == [Lost("o", wording("fleet.no-port-is-free"))]


def test_a_box_that_is_gone_takes_its_order_along(ledger: Ledger) -> None:
    why = wording("fleet.worker-gone")

    assert list(ledger.look([TWO])) == [BoxWent("box-1", why), Lost("o", why)]
    assert heard(ledger, 0, Ended("o", LAUNCH)) == []
    assert ledger.sent(order("p")) is None


def test_a_worker_that_was_given_up_is_not_heard_of_again_and_a_new_one_of_the_box_is(ledger: Ledger) -> None:
    list(ledger.look([TWO]))

    assert list(ledger.look([ONE, TWO])) == []
    anew = replace(ONE, worker="worker-3")
    assert list(ledger.look([anew, TWO])) == [BoxCame(ONE.facts)]


def test_a_worker_that_began_anew_between_two_looks_was_gone(ledger: Ledger) -> None:
    anew = replace(ONE, worker="worker-3", address="tcp://3")

    kinds = [type(one) for one in ledger.look([anew, TWO])]

    assert kinds == [BoxWent, Lost, BoxCame]


def test_what_dask_gave_up_is_lost_unless_its_end_was_reported(ledger: Ledger) -> None:
    assert list(ledger.ended("o", "Dask ended it")) == [Lost("o", "Dask ended it")]

    ledger.sent(order("p"))
    heard(ledger, 0, Ended("p", LAUNCH), name="p")
    assert list(ledger.ended("p", "Dask ended it")) == []


def test_the_same_machine_under_another_name_is_not_asked(ledger: Ledger) -> None:
    twin = Seen("tcp://9", "worker-9", BoxFacts("box-9", 4.0, Provenance()), ONE.identity)

    (warned,) = ledger.look([ONE, TWO, twin])

    assert isinstance(warned, Warned)
    assert (warned.box, warned.slug) == ("box-9", "box-twice")
    assert list(ledger.look([ONE, TWO, twin])) == []  # said once
    assert ledger.sent(order("p", "box-9")) is None


def test_a_warning_before_a_launch_is_reported_once_and_one_within_it_each_time(ledger: Ledger) -> None:
    warned = Warned("box-1", "loses-at-stop", "it does")

    for name in ("p", "q"):
        ledger.sent(order(name))
    assert heard(ledger, 0, warned, name="p") == [warned]
    assert heard(ledger, 0, warned, name="q") == []
    heard(ledger, 1, Began("q", LAUNCH), name="q")
    assert heard(ledger, 2, warned, name="q") == [warned]


def test_how_a_launch_goes_is_passed_on(ledger: Ledger) -> None:
    assert heard(ledger, 0, Sampled("o", 1.0, 5.0, None)) == [Sampled("o", 1.0, 5.0, None)]
