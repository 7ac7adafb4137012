"""Processes or threads: one table over the shapes of layouts and the variants of a service."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.model.demand import Demands
from tuner.core.model.diagnosis.sizing import large_enough, sizing_rules
from tuner.core.model.machine import Machine
from tuner.core.model.network import Prediction
from tuner.core.model.prediction.extrapolation import CalibratedRange
from tuner.core.model.prediction.shapes import shape_bests, shape_of
from tuner.core.model.prediction.trust import Trusted, TrustedLayout
from tuner.core.stats.interval import Estimate
from tuner.reports.model.prediction import Predicted, prediction_sentences
from tuner.reports.model.shapes import render_shapes, shapes_facts

from ..wording import wording
from .test_report_model import JOINT

pytestmark = pytest.mark.pythons


def trusted(per_s: dict[str, float], as_good: str = "", reach: float = 0.05) -> Trusted:
    """Layout -> items/s; the first is best."""
    rows = tuple(
        TrustedLayout(
            parse_layout(text), Estimate(value, (1 - reach) * value, (1 + reach) * value),
            Estimate(1.0), Estimate(1.0), (), 0.0,
        )
        for text, value in per_s.items()
    )  # fmt: skip
    column = np.asarray([*per_s.values()])
    alike = tuple(map(parse_layout, filter(None, as_good.split(","))))
    return Trusted(rows, parse_layout(next(iter(per_s))), alike, Prediction(column, *[0 * column] * 10), 0.9)


def predicted(of: Trusted) -> Predicted:
    return Predicted(JOINT, Machine(4), of)


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        ("1x1", "processes"),
        ("8x1", "processes"),
        ("8x-", "processes"),
        ("1x8", "threads"),
        ("2x4@gevent", "both"),
    ],
)
def test_a_layout_is_of_processes_of_threads_or_of_both(layout: str, shape: str) -> None:
    assert shape_of(parse_layout(layout)) == shape


def test_the_best_of_each_shape_stands_beside_the_best_of_all() -> None:
    found = shape_bests([trusted({"8x1": 100.0, "4x1": 80.0, "2x4": 97.0, "1x8": 20.0}, "2x4")])

    assert [(str(one.row.layout), one.shape, one.standing) for one in found] == [
        ("8x1", "processes", "best"),
        ("2x4", "both", "as-good"),
        ("1x8", "threads", "slower"),
    ]
    assert found[1].of_best == pytest.approx(0.97)


def test_the_best_shape_is_that_of_the_predicted_best_if_larger_layouts_count_as_equal() -> None:
    one = trusted({"1x4": 100.0, "2x2": 100.05, "4x1": 100.08, "2x4": 60.0}, "2x2,4x1")
    found = shape_bests([one])

    assert [(str(each.row.layout), each.standing) for each in found] == [
        ("1x4", "best"),
        ("2x2", "as-good"),
        ("4x1", "as-good"),
    ]
    (sentence,) = prediction_sentences(predicted(one))
    assert wording("model.larger-ones-give-as-much") in sentence
    (clear,) = prediction_sentences(predicted(trusted({"4x1": 100.0, "2x2": 99.0}, "2x2")))
    assert clear.startswith("4x1 is predicted best; 1 other layout may be as good")


def test_variants_stand_in_one_table_and_only_intervals_that_part_tell_them_apart() -> None:
    found = shape_bests(
        [trusted({"1x8@threads": 100.0}), trusted({"8x-@fork": 96.0}), trusted({"8x-@spawn": 60.0})]
    )

    assert [(one.variant, one.standing, one.place) for one in found] == [
        ("threads", "best", 0),
        ("fork", "as-good", 1),
        ("spawn", "slower", 2),
    ]


def test_a_single_shape_of_a_single_variant_is_no_question() -> None:
    assert render_shapes([predicted(trusted({"8x1": 100.0, "4x1": 80.0}))], {}) == ""


def test_the_table_answers_in_a_sentence() -> None:
    clear = render_shapes([predicted(trusted({"8x1": 100.0, "1x8": 25.0}))], {})
    alike = render_shapes([predicted(trusted({"8x1": 100.0, "1x8": 98.0}, "1x8"))], {})

    assert (
        "Processes: 8x1 is predicted to give 4 times the throughput of 1x8, the next best shape.\n" in clear
    )
    assert "8x1, 1x8 may be equally good; 1x8 needs the least memory of them.\n" in alike
    assert clear.startswith("Processes or threads? (predicted on 4 cores)\n")


def test_variants_that_cannot_be_predicted_are_named_with_the_reason() -> None:
    one = predicted(trusted({"8x1@sync": 100.0, "1x8@sync": 25.0}))

    text = render_shapes([one], {"gevent": "each process works on many requests at once"})

    assert "gevent is not in it: each process works on many requests at once.\n" in text


def test_programs_get_the_same_rows() -> None:
    (first, second) = shapes_facts([predicted(trusted({"8x1": 100.0, "1x8": 25.0}))])

    assert (first["layout"], first["standing"], first["of_best"]) == ("8x1", "best", 1.0)
    assert (second["shape"], second["of_best"]) == ("threads", 0.25)
    assert second["throughput_per_10min"]["mean"] == 15000.0


def test_rules_name_the_smallest_layout_of_each_shape_that_is_large_enough() -> None:
    seen = CalibratedRange(Machine(4), (Layout(1, 1), Layout(2, 2)))
    rules = {rule.kind: rule for rule in sizing_rules(Demands(gil_s=0.01, asleep_s=0.03), Machine(4), seen)}
    none_has_threads = replace(seen, layouts=(Layout(1, 1, has_threads=False),))
    forked = {rule.kind: rule for rule in sizing_rules(Demands(gil_s=0.01), Machine(4), none_has_threads)}

    threads = rules["threads"].count
    assert large_enough(rules, "threads") == f"1x{threads}"
    assert large_enough(rules, "processes") == f"{rules['single-threads'].count}x1"
    assert large_enough(rules, "both") == f"{rules['processes'].count}x{threads}"
    assert large_enough(forked, "processes") == f"{forked['single-threads'].count}x-"
    assert large_enough(forked, "threads") is None
