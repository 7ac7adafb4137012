"""What other processes took of the host, and which settings let it in: said beside the answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.ranking.ranking import rank
from tuner.core.windows.launch_sums import LaunchTally, tally
from tuner.core.windows.other_processes import other_processes_of
from tuner.reports.ranking.evidence import describe_no_evidence, describe_others, weakened_settings
from tuner.reports.ranking.ranking import render_ranking
from tuner.reports.ranking.ranking_words import reasons_against, reservations

from ..wording import key_of, wording
from .test_ranking_limits import TRUTH, WHOLE, study, taken

A, B = Layout(1, 4), Layout(4, 1)


def on(cores: float, n_cpus: int | None = None) -> StudyRecord:
    """A study on a host of so many cores, or under a quota of them on a host of *n_cpus*."""
    host = {} if n_cpus is None else {"cpus": str(n_cpus), "load_of": "the service's tasks"}
    return study(cores=max(1, int(cores)), box_cores=cores, provenance=Provenance.from_mapping(host))


def launch(
    layout: Layout,
    foreign_cpu_s: float,
    steal_s: float = 0.0,
    *,
    cpu_s: float = 200.0,
    tuner_cpu_s: float = 0.0,
    interrupt_s: float = 0.0,
) -> LaunchTally:
    """A window of 100 s; by default, the service fills two cores."""
    return LaunchTally(
        layout, ("box", 0), length_s=100.0, foreign_cpu_s=foreign_cpu_s, steal_s=steal_s, cpu_s=cpu_s,
        tuner_cpu_s=tuner_cpu_s, interrupt_s=interrupt_s,
    )  # fmt: skip


def test_it_is_the_mean_over_windows_and_counts_what_the_hypervisor_took() -> None:
    found = other_processes_of([launch(A, 10.0), launch(A, 20.0, 5.0), launch(B, 25.0)], on(2.0), 0.02)

    assert found is not None
    assert found.cores == pytest.approx(0.2)
    assert found.of_layout == {A: pytest.approx(0.175), B: pytest.approx(0.25)}
    assert other_processes_of([], on(2.0), 0.02) is None


@pytest.mark.parametrize(
    ("cores", "host_cores", "can_change", "is_no_evidence"),
    [
        (0.03, 2.0, False, False),  # 1.5 % of what fills the cores: less than the margin
        (0.10, 2.0, True, False),  # 5 %, but a window with it counts by default
        (0.20, 2.0, True, True),
        (0.30, 24.0, False, False),  # voids windows by default, and is 1.3 % all the same
        (0.60, 24.0, True, True),
    ],
)
def test_the_bar_is_what_can_change_a_result_and_is_let_in_by_an_override_alone(
    cores: float, host_cores: float, can_change: bool, is_no_evidence: bool
) -> None:
    layouts = (Layout(1, 24), Layout(24, 1))
    cpu_s = 100 * (host_cores - cores)
    found = other_processes_of([launch(x, 100 * cores, cpu_s=cpu_s) for x in layouts], on(host_cores), 0.02)

    assert found is not None
    assert (found.can_change_a_result, found.is_no_evidence) == (can_change, is_no_evidence)


def test_what_differs_between_layouts_counts_though_the_mean_is_small() -> None:
    found = other_processes_of([launch(A, 0.0), *[launch(A, 0.0)] * 18, launch(B, 40.0)], on(2.0), 0.02)

    assert found is not None
    assert found.share < 0.02
    assert found.is_no_evidence


def test_the_most_lost_is_that_of_the_layout_that_met_the_most() -> None:
    found = other_processes_of([launch(A, 4.0), launch(B, 9.0)], on(2.0), 0.02)

    assert found is not None
    assert found.share == pytest.approx(0.0325)
    assert found.most_lost == pytest.approx(0.045)


def test_a_layout_that_leaves_cores_idle_lost_nothing() -> None:
    idle = other_processes_of([launch(A, 60.0, cpu_s=100.0), launch(B, 80.0, cpu_s=99.0)], on(2.0), 0.02)
    full = other_processes_of([launch(A, 20.0, cpu_s=178.0), launch(B, 60.0, cpu_s=100.0)], on(2.0), 0.02)

    assert idle is not None
    assert idle.lost == {A: 0.0, B: 0.0}
    assert not idle.can_change_a_result
    assert not idle.is_no_evidence
    assert full is not None
    assert full.most_lost == pytest.approx(0.1)
    assert full.is_no_evidence


def test_tuner_and_the_hypervisor_help_to_fill_the_cores() -> None:
    found = other_processes_of([launch(A, 20.0, 20.0, cpu_s=130.0, tuner_cpu_s=20.0)], on(2.0), 0.02)
    idle = other_processes_of([launch(A, 20.0, 20.0, cpu_s=130.0)], on(2.0), 0.02)

    assert found is not None
    assert found.most_lost == pytest.approx(0.2)
    assert idle is not None
    assert idle.most_lost == 0


def test_interrupts_help_to_fill_the_cores_but_are_no_other_processes() -> None:
    found = other_processes_of([launch(A, 20.0, cpu_s=130.0, interrupt_s=40.0)], on(2.0), 0.02)
    idle = other_processes_of([launch(A, 20.0, cpu_s=130.0)], on(2.0), 0.02)

    assert found is not None
    assert (found.cores, found.most_lost) == pytest.approx((0.2, 0.1))
    assert idle is not None
    assert idle.most_lost == 0


def test_a_layout_loses_no_core_that_its_threads_cannot_use() -> None:
    """One thread used 0.84 of 2 cores and others 0.97: it may have lost 0.16 of one core, not 0.97 of two."""
    single, children = Layout(1, 1), Layout(1, 1, "children")
    found = other_processes_of(
        [launch(single, 97.0, cpu_s=84.0), launch(children, 60.0, cpu_s=140.0)], on(2.0), 0.02
    )

    assert found is not None
    assert found.lost == {single: pytest.approx(0.16), children: pytest.approx(0.3)}


@pytest.mark.parametrize(
    ("others", "lost", "is_no_evidence"),
    [
        (20.0, 0.0, False),  # of 64 cores: four are free for the layout
        (52.0, 0.0, False),
        (55.0, (55 - (0.9 * 64 - 4)) / 4, True),  # with the layout's 3.9 cores, the host is full
    ],
)
def test_under_a_quota_other_processes_cost_only_what_does_not_fit_beside_it(
    others: float, lost: float, is_no_evidence: bool
) -> None:
    found = other_processes_of([launch(A, 100 * others, cpu_s=390.0)], on(4.0, n_cpus=64), 0.02)

    assert found is not None
    assert found.host_cores == 64
    assert found.lost == {A: pytest.approx(lost)}
    assert found.is_no_evidence == is_no_evidence


@pytest.mark.parametrize(
    ("others", "steal", "own", "changes", "lost"),
    [
        (1.5, 0.0, 4.0, {}, 0.0),  # 2 CPUs more are for others; with 0.15 core, the six are not full
        (1.5, 0.0, 5.9, {}, 0.15 / 6),  # a valid window has at most 0.15 core of it on the six
        (0.1, 0.0, 5.9, {}, 0.1 / 6),
        (0.1, 0.1, 5.9, {}, 0.2 / 6),
        (2.4, 0.0, 5.5, {}, 0.4 / 6),  # at least 0.4 core is on the six
        (1.5, 0.0, 5.9, {"foreign_limit_cores": 1.0}, 1.0 / 6),
        (1.5, 0.0, 5.9, {"n_resident": 4}, 1.5 / 6),
    ],
)
def test_cpus_on_which_the_study_may_not_run_are_for_others(
    others: float, steal: float, own: float, changes: dict[str, Any], lost: float
) -> None:
    host = {"cpus": "6", "host_cpus": "8", "cpus_elsewhere": "2"}
    layout = Layout(6, 1)
    record = study(cores=6, box_cores=6.0, provenance=Provenance.from_mapping(host))
    found = other_processes_of(
        [launch(layout, 100 * others, 100 * steal, cpu_s=100 * own)], replace(record, **changes), 0.02
    )

    assert found is not None
    assert found.host_cores == 8
    assert found.limit_cores == pytest.approx(2.15)
    assert found.lost == {layout: pytest.approx(lost)}
    assert found.is_no_evidence == (others > 2.15)


def busy(used_s: float, **asked: object) -> tuple[StudyRecord, list[WindowRecord]]:
    """60 s windows on a host of 24 cores."""
    return study(**asked), taken(WHOLE, foreign_cpu_s=used_s)


def test_windows_that_others_disturbed_are_no_evidence_and_every_export_says_so() -> None:
    record, windows = busy(60 * 20.4, foreign_limit_cores=64.0)
    ranking = rank(record, windows)
    result = render_ranking(record, ranking, "simple")
    facts = json.loads(render_ranking(record, ranking, "json"))["evidence"]

    assert wording("rank.no-evidence") in result
    assert wording("rank.weaker-foreign-limit") in result
    assert facts["other_processes"]["is_no_evidence"]
    assert facts["other_processes"]["cores"] == pytest.approx(20.4)
    assert facts["other_processes"]["by_layout"] == dict.fromkeys(TRUTH, pytest.approx(20.4))
    assert wording("rank.no-evidence") in render_ranking(record, ranking, "csv")


def test_windows_in_slices_beside_others_are_evidence_for_a_host_as_busy() -> None:
    record, windows = busy(60 * 20.4, n_resident=4)
    sums = tally(windows)
    for one in sums.launches:
        one.heat = 0
    ranking = rank(record, sums)

    assert ranking.others is not None
    assert ranking.others.holds_as_busy
    assert describe_no_evidence(ranking)[0].startswith(wording("rank.holds-as-busy"))
    assert reservations(record, ranking) == describe_no_evidence(ranking)
    assert reasons_against(record, ranking) == []


def test_the_layout_that_may_have_lost_most_is_named() -> None:
    record, windows = busy(60 * 1.2)
    fewer = [replace(one, service_cpu_s=1320.0) if str(one.layout) == "12x2" else one for one in windows]
    ranking = rank(record, fewer)

    assert describe_others(ranking) == []
    assert wording("rank.cost-a-layout") in describe_no_evidence(ranking)[0]


def test_a_quiet_host_is_evidence_and_its_use_is_said_all_the_same() -> None:
    record, windows = busy(60 * 0.12)
    ranking = rank(record, windows)

    assert describe_no_evidence(ranking) == []
    assert wording("rank.others-used") in render_ranking(record, ranking, "simple")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"foreign_limit_cores": 64.0}, wording("rank.weaker-foreign")),
        ({"max_attempts": 9}, wording("rank.weaker-attempts")),
        ({"warmup_s": 0.0}, wording("rank.weaker-no-warmup")),
        ({"warmup_s": 3.0}, wording("rank.weaker-warmup")),
        ({"window_s": 6.0}, wording("rank.weaker-window")),
        ({"warms_cache": False}, wording("rank.weaker-cache")),
        ({"memory_pressure_limit_ratio": 1.0}, wording("rank.weaker-memory")),
    ],
    ids=key_of,
)
def test_each_setting_that_weakens_the_evidence_is_named_with_the_usual_value(
    change: dict[str, object], said: str
) -> None:
    usual = study()

    assert weakened_settings(usual) == ()
    assert weakened_settings(replace(usual, **change)) == (said,)  # type: ignore[arg-type]


def test_windows_of_layouts_that_take_turns_are_usually_shorter() -> None:
    assert weakened_settings(study(n_resident=4, min_window_s=10.0)) == ()
    assert len(weakened_settings(study(n_resident=4, min_window_s=5.0))) == 1


def test_a_setting_that_is_stricter_than_usual_weakens_nothing() -> None:
    strict = study(foreign_limit_cores=0.01, max_attempts=1, memory_pressure_limit_ratio=0.01, window_s=900.0)

    assert weakened_settings(strict) == ()
