"""What an axis alone changes: contrasts of known effects, their intervals, and how they are told."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from math import exp, log, sqrt

import pytest

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.ranking.axis_effects import AxisEffect, axis_effects
from tuner.core.ranking.ranking import rank
from tuner.core.ranking.study_difference import Side
from tuner.core.search.recheck import Launched
from tuner.core.stats.quantiles import student_t_quantile
from tuner.core.stats.two_way_anova import Observation, fit
from tuner.reports.ranking.axis_bests import axes_table
from tuner.reports.ranking.ranking import render_ranking
from tuner.reports.text.formats import table_formats

from ..wording import wording
from .test_report_ranking import study_of, window

AXES = {"python": ["3.11", "3.13"], "malloc": ["glibc", "jemalloc", "arena"]}
CHANGES = {"3.11": 0.0, "3.13": log(1.2), "glibc": 0.0, "jemalloc": log(0.9), "arena": 0.0}
SHAPES = {(1, 1): 0.0, (1, 4): 1.0, (4, 1): 0.7}


def layouts() -> dict[Layout, float]:
    return {
        Layout(*shape, f"{python}+{malloc}"): level + CHANGES[python] + CHANGES[malloc]
        for shape, level in SHAPES.items()
        for python in AXES["python"]
        for malloc in AXES["malloc"]
    }


def launches(seed: int, n_blocks: int = 3, noise: float = 0.02) -> list[Launched]:
    drawn = random.Random(seed)
    return [
        Launched(block, layout, level + 0.05 * block + drawn.gauss(0, noise))
        for block in range(n_blocks)
        for layout, level in layouts().items()
    ]


def test_without_noise_each_value_is_reported_exactly() -> None:
    found = axis_effects(AXES, Side(launches(1, noise=0.0)), 0.95)

    assert [(one.axis, one.value, one.beside, one.n_pairs) for one in found] == [
        ("python", "3.13", "3.11", 9),
        ("malloc", "jemalloc", "glibc", 6),
        ("malloc", "arena", "glibc", 6),
    ]
    means = [one.ratio.mean for one in found if one.ratio is not None]
    assert means == pytest.approx([1.2, 0.9, 1.0])


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_intervals_hold_together_as_often_as_they_say(confidence: float) -> None:
    """400 seeded studies; the bound is three standard errors below the nominal share."""
    truths = [1.2, 0.9, 1.0]
    n_held, n = 0, 400
    for seed in range(n):
        found = axis_effects(AXES, Side(launches(seed, n_blocks=2)), confidence)
        n_held += all(
            one.ratio.low <= truth <= one.ratio.high for one, truth in zip(found, truths, strict=True)
        )

    assert n_held / n >= confidence - 3 * (confidence * (1 - confidence) / n) ** 0.5


def test_the_variance_is_that_of_the_mean_of_pairs() -> None:
    """Of balanced data its middle is the mean of the pairs' differences."""
    axes = {"python": ["a", "b"]}
    drawn = random.Random(5)
    seen = [
        Launched(block, Layout(shape, 1, value), drawn.gauss(0, 0.1))
        for block in range(4)
        for shape in (1, 2, 4)
        for value in ("a", "b")
    ]

    (found,) = axis_effects(axes, Side(seen), 0.95)

    gaps = [one.value - other.value for one, other in zip(seen[1::2], seen[::2], strict=True)]
    assert found.ratio.mean == pytest.approx(exp(sum(gaps) / len(gaps)))
    fitted = fit(
        [
            Observation([1, 2, 4].index(x.layout.processes) * 2 + (x.layout.variant == "b"), x.block, x.value)
            for x in seen
        ],
        6,
    )
    width = student_t_quantile(0.975, fitted.residual_df) * sqrt(2 * fitted.residual_variance / 12)
    assert log(found.ratio.high / found.ratio.mean) == pytest.approx(width)
    assert log(found.ratio.mean / found.ratio.low) == pytest.approx(width)
    (adaptive,) = axis_effects(axes, Side(seen, is_adaptive=True), 0.95)
    assert log(adaptive.ratio.high / adaptive.ratio.mean) > width


def test_a_value_that_no_layout_has_beside_the_first_is_reported_so() -> None:
    one = [Launched(0, parse_layout("1x1@3.13+glibc"), 0.0), Launched(0, parse_layout("1x2@3.11+glibc"), 0.0)]

    found = axis_effects({"python": ["3.11", "3.13"], "malloc": ["glibc"]}, Side(one), 0.95)

    assert found == (AxisEffect("python", "3.13", "3.11", None, 0, 1),)
    assert axis_effects(AXES, Side([]), 0.95)[0].ratio is None
    assert axis_effects({}, Side(one), 0.95) == ()


def test_values_are_compared_with_the_first_that_was_measured() -> None:
    """The axis' first value may have been left out: its name says nothing of the others."""
    shapes = ["1x1", "1x4", "2x2", "4x1"]
    levels = {"3.13": 0.0, "3.14": log(1.5)}
    seen = [
        Launched(block, parse_layout(f"{shape}@{value}"), level + 0.1 * block)
        for block in range(3)
        for shape in shapes
        for value, level in levels.items()
    ]

    found = axis_effects({"python": ["own", "3.13", "3.14"]}, Side(seen), 0.95)

    assert [(one.value, one.beside, one.n_pairs, one.n_measured) for one in found] == [
        ("own", "3.13", 0, 0),
        ("3.14", "3.13", 4, 4),
    ]
    assert found[0].ratio is None
    assert found[1].ratio is not None
    assert found[1].ratio.mean == pytest.approx(1.5)


def test_values_are_compared_with_the_first_that_others_are_a_pair_with() -> None:
    seen = [
        Launched(block, parse_layout(text), 0.1 * n)
        for block in range(2)
        for n, text in enumerate(("8x8@a", "1x1@b", "1x1@c"))
    ]

    found = axis_effects({"it": ["a", "b", "c"]}, Side(seen), 0.95)

    assert [(one.value, one.beside, one.n_pairs) for one in found] == [("a", "b", 0), ("c", "b", 1)]


def test_one_block_gives_no_interval() -> None:
    seen = [Launched(0, parse_layout(text), 0.0) for text in ("1x1@a", "1x1@b")]

    (found,) = axis_effects({"python": ["a", "b"]}, Side(seen), 0.95)

    assert found.ratio is not None
    assert (found.ratio.mean, found.ratio.low) == (1.0, None)


def test_a_ranking_tells_it_in_every_format() -> None:
    truth = {"1x1@3.11": 1000.0, "1x1@3.13": 1300.0, "2x1@3.11": 2000.0, "2x1@3.13": 2600.0}
    drawn = random.Random(3)
    windows = [
        window(parse_layout(layout), block, items * drawn.gauss(1, 0.005), n + 10 * block, ())
        for block in (1, 2, 3)
        for n, (layout, items) in enumerate(truth.items())
    ]
    config = {"service": {"kind": "script", "axes": [["python", [["3.11", {}], ["3.13", {}]]]]}}
    study = replace(study_of(truth), config=StoredConfig.of_sections(config))

    ranking = rank(study, windows)

    assert study.config.service.axes == {"python": ["3.11", "3.13"]}
    text = render_ranking(study, ranking, "simple")
    assert wording("compare.what-axis-alone-changes-throughput") in text
    (row,) = [line for line in text.splitlines() if line.startswith("python") and "instead" not in line]
    assert "more" in row
    (fact,) = json.loads(render_ranking(study, ranking, "json"))["axes"]
    assert (fact["axis"], fact["value"], fact["beside"], fact["n_pairs"]) == ("python", "3.13", "3.11", 2)
    assert fact["ratio"]["low"] < 1.3 < fact["ratio"]["high"]
    for fmt in table_formats():
        render_ranking(study, ranking, fmt)


def test_a_value_without_threads_is_paired_with_one_thread_in_each_process() -> None:
    axes = {"pool": ["threads", "prefork"]}
    shapes = {"1x1@threads": 1.0, "1x4@threads": 3.0, "1x-@prefork": 1.5, "4x-@prefork": 5.0}
    seen = [Launched(block, parse_layout(text), log(x)) for block in range(2) for text, x in shapes.items()]

    (found,) = axis_effects(axes, Side(seen), 0.95)
    (alone,) = axis_effects(axes, Side([one for one in seen if str(one.layout) != "1x1@threads"]), 0.95)

    assert (found.n_pairs, found.n_measured) == (1, 2)
    assert found.ratio.mean == pytest.approx(1.5)
    assert (alone.ratio, alone.n_pairs, alone.n_measured) == (None, 0, 2)


@pytest.mark.parametrize(("n_measured", "said"), [(0, "not measured"), (2, "no pair")])
def test_a_value_that_is_like_no_other_layout_is_not_said_to_be_unmeasured(
    n_measured: int, said: str
) -> None:
    ranking = rank(study_of({"1x1": 1.0}), [])
    effect = AxisEffect("pool", "prefork", "threads", None, 0, n_measured)

    (row,) = axes_table(replace(ranking, axes=(effect,))).rows

    assert row[5] == said
