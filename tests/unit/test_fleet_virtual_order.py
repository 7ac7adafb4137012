from __future__ import annotations

from tuner.adapters.fleet.dask_fleet import VirtualOrder
from tuner.core.domain.fleet import Lost


def test_news_come_in_the_order_of_their_time_whoever_was_done_first() -> None:
    ordered = VirtualOrder()
    for box, at_s in (("b", 3.0), ("b", 5.0), ("a", 4.0), ("a", 6.0)):
        ordered.add(box, at_s, Lost(box, ""))

    found = []
    while (one := ordered.next(frozenset())) is not None:
        found.append(one[0])

    assert found == [3.0, 4.0, 5.0, 6.0]


def test_a_busy_box_is_waited_for_it_may_tell_of_something_earlier() -> None:
    ordered = VirtualOrder()
    ordered.add("b", 3.0, Lost("b", ""))

    assert ordered.next(frozenset({"a"})) is None
    ordered.add("a", 2.0, Lost("a", ""))
    assert ordered.next(frozenset({"a", "b"})) == (2.0, Lost("a", ""))
    assert ordered.next(frozenset({"a"})) is None


def test_at_the_same_time_boxes_come_by_name() -> None:
    ordered = VirtualOrder()
    for box in ("b", "a"):
        ordered.add(box, 1.0, Lost(box, ""))

    assert ordered.next(frozenset()) == (1.0, Lost("a", ""))
