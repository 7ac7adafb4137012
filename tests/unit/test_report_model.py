"""What is printed of calibrations and predictions."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tuner.core.domain.layout import Layout, parse_layout, parse_layouts
from tuner.core.model.calibration.calibrate import Calibration
from tuner.core.model.calibration.calibrated import Calibrated, LeftOut, LeftOutErrors, Measured, of_profile
from tuner.core.model.demand import Demands, Terms
from tuner.core.model.machine import Machine
from tuner.core.model.network import Prediction
from tuner.core.model.prediction.extrapolation import CalibratedRange
from tuner.core.model.prediction.memory import MemoryFit
from tuner.core.model.prediction.trust import Trusted, TrustedLayout
from tuner.core.model.prediction.whatif import parse_what_if
from tuner.core.model.profile import Profile, ProfileMemory
from tuner.core.stats.interval import Estimate
from tuner.reports.model.calibration import calibration_facts, render_calibration
from tuner.reports.model.model import seconds
from tuner.reports.model.prediction import Predicted, prediction_facts, render_prediction
from tuner.reports.model.shapes import render_shapes, shapes_facts

from ..printed import printed
from ..wording import start_of, wording

ITEM = Demands(gil_s=0.06, python_s=0.004, child_s=0.33, asleep_s=0.05, blocked_s=0.000_3)
INTERVALS = {
    "gil_s": Estimate(0.06, 0.0585, 0.0615),
    "python_s": Estimate(0.004, 0.0, 0.009),
    "child_s": Estimate(0.33, 0.325, 0.335),
    "asleep_s": Estimate(0.05, 0.047, 0.053),
    "blocked_s": Estimate(0.000_3, 0.000_1, 0.000_5),
}
DRAWS = tuple(ITEM.scaled(child_s=1 + 0.001 * (n - 50)) for n in range(101))
PROFILE = Profile("crash-processor", ITEM, Machine(2), intervals=INTERVALS, source="6 windows of 1x1")
ALONE = Calibrated(
    service="crash-processor",
    where="stage-1, 2026-11-20",
    calibration=Calibration(
        profile=PROFILE,
        method="alone",
        n_windows=6,
        draws=DRAWS,
        misfit_sd=0.04,
        notes=("1x1 cannot tell Python that lets go of the GIL.",),
    ),
    seen=CalibratedRange(Machine(2), (Layout(1, 1),)),
    memory=MemoryFit(ProfileMemory(62e6), error_ratio=None, df=0),
    measured=(Measured(Layout(1, 1), 2.25, 0.9, 0.88, 62e6, 6),),
)
TEXTS = ("1x1", "2x1", "1x4", "4x1")
LEFT_OUT = LeftOutErrors(
    tuple(
        LeftOut(parse_layout(text), seen, said, load, load_said, pss, pss_said)
        for text, seen, said, load, load_said, pss, pss_said in [
            ("1x1", 2.25, 2.31, 0.9, 0.88, 62e6, 63e6),
            ("2x1", 4.4, 4.38, 1.75, 1.77, 124e6, 122e6),
            ("1x4", 5.1, 4.9, 3.5, None, 70e6, None),
            ("4x1", 5.2, 5.28, 3.9, 3.85, 250e6, 245e6),
        ]
    )
)
JOINT = replace(
    ALONE,
    calibration=replace(
        ALONE.calibration,
        method="joint",
        n_windows=24,
        misfit_sd=0.021,
        notes=(),
        profile=replace(PROFILE, terms=Terms(cpu_per_process_ratio=0.012, threaded_asleep_s=0.003)),
    ),
    seen=CalibratedRange(Machine(2), tuple(parse_layouts(",".join(TEXTS)))),
    memory=MemoryFit(ProfileMemory(61e6, 2e6, 25e6), error_ratio=0.02, df=1),
    measured=tuple(
        Measured(row.layout, row.measured_per_s, row.measured_load, 1.9, 2e8, 6) for row in LEFT_OUT.rows
    ),
    left_out=LEFT_OUT,
)


def trusted(
    rows: dict[str, tuple[float, float, float]], best: str, as_good: str = "", **beyond: str
) -> Trusted:
    """Layout -> items/s, load, busy cores; *beyond* is by layout, its name behind an underscore."""
    made = tuple(
        TrustedLayout(
            layout=parse_layout(text),
            throughput_per_s=Estimate(per_s, 0.93 * per_s, 1.07 * per_s),
            load=Estimate(load, 0.9 * load, 1.1 * load),
            cpu_cores=Estimate(cores, 0.95 * cores, cores),
            beyond=tuple(filter(None, beyond.get(f"_{text}", "").split("; "))),
            n_children=0.8 * cores,
        )
        for text, (per_s, load, cores) in rows.items()
    )
    column = np.asarray([per_s for per_s, _, _ in rows.values()])
    middle = Prediction(column, *[0 * column] * 10)
    return Trusted(made, parse_layout(best), tuple(parse_layouts(as_good)) if as_good else (), middle, 0.9)


HERE = {
    "1x1": (2.25, 0.88, 0.88),
    "2x1": (4.38, 1.77, 1.74),
    "1x4": (5.0, 3.4, 1.98),
    "4x1": (5.25, 3.85, 2.0),
}
THERE = {"24x1": (52.0, 21.5, 21.0), "4x6": (49.0, 22.0, 20.0), "1x24": (16.2, 8.0, 6.5)}
BEYOND = {
    "_24x1": wording("model.more-processes", n=4) + "; " + wording("model.more-cores-busy"),
    "_4x6": wording("model.more-cores-busy") + "; " + wording("model.more-threads", n=4),
    "_1x24": wording("model.more-threads", n=4) + "; " + wording("model.more-cores-busy"),
}

CASES = {
    "here": Predicted(JOINT, Machine(2), trusted(HERE, "4x1", "1x4")),
    "cores": Predicted(JOINT, Machine(24, physical_cores=12), trusted(THERE, "24x1", "4x6", **BEYOND)),
    "what_if": Predicted(
        replace(ALONE, simulated=("Simulated: no service ran.",)),
        Machine(24, has_gil=False),
        trusted({**THERE, "1x24": (60.0, 22.0, 21.0)}, "1x24", "24x1,4x6", **BEYOND),
        what_if=parse_what_if({"child-cpu": ["x0.5"], "wait": ["+200ms"]}, no_gil=True),
        today=trusted(THERE, "24x1"),
        residence_p95_s={Layout(24, 1): 1.2, Layout(4, 6): 1.25, Layout(1, 24): 0.9},
        by="simulation",
    ),
}


def to_ten_digits(value: object) -> object:
    """The last digits are those of a C library."""
    if isinstance(value, dict):
        return {name: to_ten_digits(one) for name, one in value.items()}
    if isinstance(value, list):
        return [to_ten_digits(one) for one in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


@pytest.mark.parametrize(("name", "calibrated"), [("alone", ALONE), ("joint", JOINT)])
def test_a_calibration_looks_as_it_should(name: str, calibrated: Calibrated) -> None:
    assert render_calibration(calibrated) == printed("calibrate", f"{name}.txt")
    facts = json.dumps(to_ten_digits(calibration_facts(calibrated)), indent=1) + "\n"
    assert facts == printed("calibrate", f"{name}.json")


@pytest.mark.parametrize("name", CASES)
def test_a_prediction_looks_as_it_should(name: str) -> None:
    assert render_prediction(CASES[name]) == printed("predict", f"{name}.txt")
    facts = json.dumps(to_ten_digits(prediction_facts(CASES[name])), indent=1) + "\n"
    assert facts == printed("predict", f"{name}.json")


def test_the_table_is_cut_where_it_grows_long_and_says_so() -> None:
    rows = {f"1x{n}": (float(n), 1.0, 1.0) for n in range(1, 31)}
    predicted = Predicted(JOINT, Machine(30), trusted(rows, "1x30"))

    cut, whole = render_prediction(predicted), render_prediction(predicted, most_rows=None)

    assert wording("model.and-more") in cut
    assert "\n1x10 " not in cut
    assert "\n1x10 " in whole
    assert "more: --all" not in whole
    assert len(prediction_facts(predicted)["layouts"]) == 30


def test_what_was_measured_among_strangers_does_not_stand_beside_a_quiet_box() -> None:
    quiet = Predicted(JOINT, Machine(2), trusted(HERE, "4x1"))
    busy = replace(quiet, calibrated=replace(JOINT, foreign_cores=0.9))

    assert "measured  load" in render_prediction(quiet)
    text = render_prediction(busy)
    assert "measured  load" not in text
    assert wording("model.others-used-cores-meanwhile") in text


def measured_of(predicted: Predicted) -> list[object]:
    return [row["measured"] for row in prediction_facts(predicted)["layouts"]]


def test_programs_see_what_was_measured_where_people_do() -> None:
    here = CASES["here"]
    elsewhere = [
        replace(here, calibrated=replace(JOINT, foreign_cores=0.9)),
        replace(here, machine=Machine(3)),
        replace(here, what_if=parse_what_if({"wait": ["+1s"]}, no_gil=False)),
    ]

    assert None not in measured_of(here)
    for other in elsewhere:
        assert measured_of(other) == [None] * 4
        assert "measured  load" not in render_prediction(other)


def test_programs_are_reported_every_sentence_that_people_are() -> None:
    busy = replace(JOINT, foreign_cores=0.9, simulated=("Simulated: no service ran.",))
    predicted = replace(CASES["what_if"], calibrated=busy)

    for facts, text in [
        (calibration_facts(busy), render_calibration(busy)),
        (prediction_facts(predicted), render_prediction(predicted)),
    ]:
        assert (facts["where"], facts["method"], facts["foreign_cores"]) == (
            "stage-1, 2026-11-20",
            "joint",
            0.9,
        )
        assert facts["windows"] == 24
        assert facts["simulated"] is True
        assert wording("model.others-used-cores-meanwhile") in facts["sentences"]
        for sentence in facts["sentences"]:
            assert sentence in text
        of_table = ("What if: ", wording("model.beyond"))  # these are fields
        said = [line for line in text.splitlines() if line.endswith(".") and not line.startswith(of_table)]
        assert " ".join(said) == " ".join(facts["sentences"])


def test_a_large_error_on_what_was_left_out_is_called_too_large() -> None:
    rows = tuple(replace(row, predicted_per_s=1.2 * row.measured_per_s) for row in LEFT_OUT.rows)
    bad = replace(JOINT, left_out=LeftOutErrors(rows))

    assert wording("model.error-too-large-to-choose-by") in render_prediction(
        Predicted(bad, Machine(2), trusted(HERE, "4x1"))
    )
    assert wording("model.too-much-to-choose-by") not in render_prediction(CASES["here"])


def off_by(ratio: float) -> Calibrated:
    rows = tuple(replace(row, predicted_per_s=(1 + ratio) * row.measured_per_s) for row in LEFT_OUT.rows)
    return replace(JOINT, left_out=LeftOutErrors(rows))


@pytest.mark.parametrize(("ratio", "is_too_inexact"), [(0.049, False), (0.051, True), (0.2, True)])
def test_no_layout_is_called_best_or_slower_where_the_error_is_too_large_to_choose_by(
    ratio: float, is_too_inexact: bool
) -> None:
    one = Predicted(off_by(ratio), Machine(2), trusted(HERE, "4x1"))

    text, facts = render_prediction(one), prediction_facts(one)
    table = {row["standing"] for row in shapes_facts([one])}

    assert (wording("model.too-much-to-choose-by") in text) is is_too_inexact
    assert (wording("model.highest-but-too-inexact") in text) is is_too_inexact
    assert (wording("model.best-and-others-slower") in text) is not is_too_inexact
    assert facts["best"] == "4x1"
    assert facts["as_good"] == (["1x4", "2x1", "1x1"] if is_too_inexact else [])
    assert table == ({"unknown"} if is_too_inexact else {"best", "slower"})
    rows = [line for line in render_shapes([one], {}).splitlines() if " MB" in line]
    assert [" unknown " in row for row in rows] == [is_too_inexact] * 2
    assert ["best" in row or "slower" in row for row in rows] == [not is_too_inexact] * 2


def test_one_inexact_variant_leaves_the_whole_comparison_of_variants_open() -> None:
    exact = Predicted(JOINT, Machine(2), trusted({"4x1@sync": (9.0, 1.0, 1.0)}, "4x1@sync"))
    inexact = Predicted(off_by(0.2), Machine(2), trusted({"1x4@gthread": (1.0, 1.0, 1.0)}, "1x4@gthread"))

    assert [row["standing"] for row in shapes_facts([exact, inexact])] == ["unknown", "unknown"]


def test_without_the_changes_another_layout_may_have_the_highest_prediction() -> None:
    one = replace(CASES["what_if"], calibrated=off_by(0.2))

    assert wording("model.highest-today") in render_prediction(one)


def test_intervals_of_predictions_that_say_nothing_are_called_unknown() -> None:
    wide = trusted(HERE, "4x1")
    rows = [
        replace(row, throughput_per_s=replace(row.throughput_per_s, high=11 * row.throughput_per_s.low))
        if str(row.layout) == "1x4"
        else row
        for row in wide.rows
    ]
    one = replace(CASES["here"], trusted=replace(wide, rows=tuple(rows)))

    text, shapes, facts = render_prediction(one), render_shapes([one], {}), prediction_facts(one)["layouts"]

    for printed_ in (text, shapes):
        (line,) = [line.split() for line in printed_.splitlines() if " unknown " in line]
        assert "1x4" in line
        assert wording("model.interval-unknown") in printed_
    assert wording("model.interval-unknown") not in render_prediction(CASES["here"])
    (fact,) = [fact for fact in facts if fact["layout"] == "1x4"]
    assert fact["throughput_per_10min"]["high"] == pytest.approx(11 * fact["throughput_per_10min"]["low"])


def test_the_error_of_the_memory_is_that_of_the_layouts_for_which_it_is_known() -> None:
    text, facts = render_prediction(CASES["here"]), prediction_facts(CASES["here"])["held_out"]
    without = LeftOutErrors(tuple(replace(row, measured_bytes=None) for row in LEFT_OUT.rows))
    bare = replace(CASES["here"], calibrated=replace(JOINT, left_out=without))

    errors = [row["memory_error_ratio"] for row in facts["layouts"]]
    assert errors == [pytest.approx(1 / 62), pytest.approx(-2 / 124), None, pytest.approx(-5 / 250)]
    assert facts["memory_mean_ratio"] == pytest.approx((1 / 62 + 2 / 124 + 5 / 250) / 3)
    assert wording("model.memory-of-three-left-out") in text
    assert wording("model.memory-left-out") not in render_prediction(bare)
    assert prediction_facts(bare)["held_out"]["memory_mean_ratio"] is None


def test_figures_without_intervals_are_not_called_sure() -> None:
    bare = of_profile(replace(PROFILE, intervals={}))

    text = render_calibration(bare)

    assert wording("model.certainty-unknown") in text
    assert bare.calibration.draws == (ITEM,)


def test_a_profile_says_where_it_is_from_and_knows_no_error() -> None:
    predicted = Predicted(of_profile(PROFILE), Machine(2), trusted(HERE, "4x1"))

    text = render_prediction(predicted)

    assert wording("model.told-of-profile") in start_of(text)
    assert wording("model.no-error-is-known") in text


def test_a_profile_that_does_not_say_what_was_measured_says_that() -> None:
    assumed = wording("model.layouts-assumed")
    known = replace(PROFILE, measured=(Layout(1, 1), Layout(2, 4)), busy_cores=1.9)

    bare = Predicted(of_profile(PROFILE), Machine(2), trusted(HERE, "4x1"))
    result = Predicted(of_profile(known), Machine(2), trusted(HERE, "4x1"))

    assert assumed + "\n" in render_prediction(bare)
    assert prediction_facts(bare)["measured_layouts"] is None
    assert assumed not in render_prediction(result)
    assert prediction_facts(result)["measured_layouts"] == ["1x1", "2x4"]
    assert of_profile(known).seen.layouts == known.measured
    assert of_profile(known).seen.busy_cores == 1.9
    assert assumed not in render_prediction(CASES["here"])


def test_a_profile_that_was_measured_among_strangers_says_so() -> None:
    busy = of_profile(replace(PROFILE, machine=Machine(2, foreign_cores=0.9)))
    predicted = Predicted(busy, Machine(2), trusted(HERE, "4x1"))

    said = wording("model.others-used-cores-meanwhile")
    assert wording("model.told-of-profile-and-more", said=said) in render_prediction(predicted)
    assert prediction_facts(predicted)["foreign_cores"] == 0.9
    assert busy.seen.machine == Machine(2)


def test_a_profile_of_a_simulation_is_marked_in_all_that_rests_on_it() -> None:
    simulated = of_profile(replace(PROFILE, simulated="gil-bound"))
    predicted = Predicted(simulated, Machine(2), trusted(HERE, "4x1"))

    text = render_prediction(predicted)

    assert wording("simulate.model-gave-these-figures") in start_of(text)
    assert prediction_facts(predicted)["simulated"] is True
    assert prediction_facts(CASES["here"])["simulated"] is False


def test_memory_of_threads_that_a_profile_does_not_tell_is_a_lower_end() -> None:
    one = trusted({"1x4": (5.0, 3.4, 2.0)}, "1x4")
    profile = replace(PROFILE, memory=ProfileMemory(60e6))

    text = render_prediction(Predicted(of_profile(profile), Machine(2), one))

    said = wording("model.memory-of-threads-unknown")
    assert "> 60 MB" in text
    assert said in text
    assert said not in render_prediction(
        Predicted(of_profile(profile), Machine(2), trusted({"4x1": (5.0, 3.4, 2.0)}, "4x1"))
    )
    known = of_profile(replace(PROFILE, memory=ProfileMemory(60e6, 0.0)))
    assert "60 MB" in render_prediction(Predicted(known, Machine(2), one))
    assert said not in render_prediction(Predicted(known, Machine(2), one))


def test_memory_that_a_profile_does_not_tell_is_no_figure() -> None:
    predicted = Predicted(of_profile(PROFILE), Machine(2), trusted(HERE, "4x1"))

    assert wording("model.profile-does-say-what") in render_prediction(predicted)
    assert [row["memory_bytes"] for row in prediction_facts(predicted)["layouts"]] == [None] * 4


def test_little_certainty_comes_with_what_would_help() -> None:
    wide = tuple(ITEM.scaled(child_s=1 + 0.01 * (n - 50)) for n in range(101))
    for calibrated, advice in [
        (
            ALONE,
            wording("model.measure-longer"),
        ),
        (JOINT, wording("model.measure-more")),
    ]:
        unsure = replace(calibrated, calibration=replace(calibrated.calibration, draws=wide))

        assert advice in render_calibration(unsure)
        assert "That is little" not in render_calibration(calibrated)


def test_starting_children_has_a_row_where_it_is_known() -> None:
    known = of_profile(replace(PROFILE, demands=replace(ITEM, spawn_s=0.004)))
    part = wording("model.start-of-children-is-part-of-waiting")

    assert wording("model.starting-children") in render_calibration(known)
    assert part not in render_calibration(known)
    assert "starting children" not in render_calibration(ALONE)
    assert part in render_calibration(ALONE)
    childless = replace(PROFILE, demands=replace(ITEM, child_s=0.0))
    assert part not in render_calibration(
        replace(ALONE, calibration=replace(ALONE.calibration, profile=childless))
    )


def test_tasks_of_others_are_reported_where_they_show_in_the_load() -> None:
    def result(others_s: float) -> str:
        return render_calibration(of_profile(replace(PROFILE, demands=replace(ITEM, others_s=others_s))))

    assert wording("model.load-of-others") in result(0.02)
    assert "others" not in result(0.0001)


def test_draws_of_a_profile_are_as_wide_as_its_intervals() -> None:
    draws = of_profile(PROFILE).calibration.draws

    gil = sorted(one.gil_s for one in draws)
    assert sum(0.0585 <= value <= 0.0615 for value in gil) / len(gil) == pytest.approx(0.9, abs=0.03)
    assert min(one.python_s for one in draws) >= 0
    assert {one.spawn_s for one in draws} == {0.0}


def test_no_draw_of_a_profile_asks_for_nothing() -> None:
    """The interval goes down to nothing, and far beyond when it is normal."""
    wide = Profile("x", Demands(0.01), Machine(2), intervals={"gil_s": Estimate(0.01, 0.0, 0.1)})

    draws = of_profile(wide).calibration.draws

    assert min(one.gil_s for one in draws) == pytest.approx(1e-5)
    assert max(one.gil_s for one in draws) > 0.05


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (1e-7, "0"), (59e-6, "59 us"), (0.000_999_9, "1 ms"), (0.0586, "58.6 ms"),
        (0.586, "586 ms"), (0.99999, "1 s"), (3.3, "3.3 s"), (125.4, "125 s"),
    ],
)  # fmt: skip
def test_times_of_an_item_are_in_the_unit_that_suits_them(value: float, text: str) -> None:
    assert seconds(value) == text
