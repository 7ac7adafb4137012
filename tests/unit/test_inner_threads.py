"""Layouts that compute in more threads than they have: when a window shows it, what is kept and said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tuner.adapters.virtual.memory import MemoryStore
from tuner.core.domain.layout import Computing, Layout, LoadedPools, Pool
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import VoidReason, Window
from tuner.core.messages.launch import inner_threads
from tuner.core.planning.differences import differences
from tuner.core.ranking.ranking import rank
from tuner.core.windows.layout_check import (
    InnerThreads,
    RanLayouts,
    describe_extra_threads,
    inner_of,
    inner_threads_of,
    inner_to_facts,
)
from tuner.reports.ranking.evidence import describe_inner_threads
from tuner.reports.ranking.ranking import render_ranking
from tuner.study.study_plan import note_inner

from ..wording import key_of, wording
from .test_ran import AT_START, usage, window
from .test_ranking_limits import WHOLE, study, taken

L24 = Layout(2, 4)
OPENMP = LoadedPools((Pool("OpenMP", "OMP_NUM_THREADS", None),))
HIDDEN = LoadedPools((Pool("OpenBLAS", "OPENBLAS_NUM_THREADS", None),), is_environment_read=False)
SINGLE = LoadedPools((Pool("OpenBLAS", "OPENBLAS_NUM_THREADS", "1"),))
SEVERAL = LoadedPools(
    (
        Pool("OpenBLAS", "OPENBLAS_NUM_THREADS", "4"),
        Pool("torch", "OMP_NUM_THREADS", None),
        Pool("ONNX Runtime", "", None),
        Pool("OpenMP", "OMP_NUM_THREADS", None),
    )
)


def seen(*looks: int | None, loaded: LoadedPools = OPENMP, void: tuple[VoidReason, ...] = ()) -> Window:
    """A window of 2x4 that was looked at so often; None: nothing could be judged."""
    plain = usage(2, [4, 4])
    found = [replace(plain, computing=None if n is None else Computing(n, loaded)) for n in looks]
    return replace(window(L24, *found), void=void)


@pytest.mark.parametrize(
    ("looks", "n_inner"),
    [
        ((None, 26, 26), 26),
        ((None, 0, 26, 24, 25), 25),
        ((None, 0, 26), None),
        ((None, 0, 0, 1), None),
        ((None, None), None),
        ((None, 0), None),
    ],
)
def test_more_than_half_of_the_looks_have_to_show_them(
    looks: tuple[int | None, ...], n_inner: int | None
) -> None:
    found = inner_of(seen(*looks))

    assert (None if found is None else found.n_inner) == n_inner


@pytest.mark.parametrize(
    ("loaded", "said"),
    [
        (OPENMP, wording("inner.not-set")),
        (HIDDEN, wording("inner.hidden")),
        (SINGLE, wording("inner.set-to-one")),
        (LoadedPools(), wording("inner.no-library")),
        (SEVERAL, wording("inner.several")),
    ],
    ids=key_of,
)
def test_a_warning_says_how_many_there_are_and_why(loaded: LoadedPools, said: str) -> None:
    found = InnerThreads(L24, 26, loaded)

    assert inner_threads(found.layout, found.n_threads, 2.0, found.cause).text == said


def test_a_study_warns_once_for_each_layout_and_keeps_it() -> None:
    store, reported = MemoryStore(replace(study(), layouts=(L24, Layout(1, 1)))), []

    for taken_one in (seen(None, 0, 0), seen(None, 26), seen(None, 26)):
        note_inner(taken_one, store, lambda slug, text: reported.append((slug, text)))

    assert [slug for slug, _ in reported] == ["inner-threads"]
    assert inner_threads_of(store.study()) == (InnerThreads(L24, 26, OPENMP),)


def test_a_void_window_shows_nothing() -> None:
    store, reported = MemoryStore(replace(study(), layouts=(L24,))), []

    note_inner(
        seen(None, 26, void=(VoidReason("stalled", ""),)), store, lambda *words: reported.append(words)
    )

    assert (reported, inner_threads_of(store.study())) == ([], ())


@pytest.mark.parametrize("kept", ["", "[]", "{}", '{"n_inner": 1, "pools": [["a"]]}', "[" * 9999])
def test_what_is_kept_and_cannot_be_read_is_nothing(kept: str) -> None:
    (layout,) = inner_to_facts(InnerThreads(L24, 26, SEVERAL)).inner_threads
    provenance = Provenance(inner_threads={layout: kept})

    assert inner_threads_of(replace(study(), layouts=(L24,), provenance=provenance)) == ()


def with_inner(*found: InnerThreads) -> StudyRecord:
    asked = study()
    for one in found:
        asked = replace(asked, provenance=asked.provenance.updated(inner_to_facts(one)))
    return asked


def test_it_stands_beside_the_answer_for_people_and_programs() -> None:
    first, second, *_ = study().layouts
    asked = with_inner(InnerThreads(first, 3, OPENMP), InnerThreads(second, 9, OPENMP))
    ranking = rank(asked, taken(WHOLE))

    assert describe_extra_threads(inner_threads_of(asked), asked.box_cores) == [
        wording("inner.beside-the-answer")
    ]
    text = " ".join(render_ranking(asked, ranking, "simple").split())
    assert "12x2 in 33, 24x1 in 27" in text
    facts = json.loads(render_ranking(asked, ranking, "json"))["evidence"]["inner_threads"]
    assert facts[0] == {
        "layout": str(first),
        "n_threads": first.total_threads + 3,
        "n_inner": 3,
        "libraries": [{"name": "OpenMP", "variable": "OMP_NUM_THREADS", "value": None}],
        "is_environment_read": True,
    }


def test_the_axis_is_named_only_where_it_sets_what_is_to_blame() -> None:
    onnx = LoadedPools((Pool("ONNX Runtime", "", None),))
    reported = [
        describe_extra_threads([InnerThreads(L24, 26, loaded)], 2.0)[0] for loaded in (OPENMP, onnx, SINGLE)
    ]

    assert ["--axis omp" in sentence for sentence in reported] == [True, False, False]


def test_the_axis_is_not_named_where_a_study_has_it() -> None:
    axes = {"service": {"axes": [["omp", [["default", {}], ["1", {}]]]]}}
    reported = [
        describe_inner_threads(
            replace(with_inner(InnerThreads(study().layouts[0], 3, OPENMP)), config=config)
        )[0]
        for config in (StoredConfig("{}"), StoredConfig.of_sections(axes))
    ]

    assert ["--axis omp" in sentence for sentence in reported] == [True, False]


def test_two_studies_differ_in_it_where_the_cause_is_another() -> None:
    layout = study().layouts[0]
    before, after = with_inner(InnerThreads(layout, 3, OPENMP)), with_inner(InnerThreads(layout, 3, SINGLE))
    alike = with_inner(InnerThreads(layout, 4, OPENMP))

    (found,) = differences(before, after)
    assert (found.name, found.before) == (
        f"threads beside those of {layout}",
        "OMP_NUM_THREADS is not set (OpenMP)",
    )
    assert [*differences(before, alike)] == []


def test_layouts_whose_libraries_start_fewer_threads_for_more_processes_are_not_called_alike() -> None:
    """On 8 cores, with one library thread for each core that a process has: 1x4 runs 11, 2x8 too."""

    def judged(computing: Computing | None) -> Window:
        ran = RanLayouts(AT_START)
        looks = [replace(usage(n, [11] * n), computing=computing) for n in (1, 2)]
        ran.judged(window("1x4", looks[0]))
        return ran.judged(window("2x8", looks[1]))

    assert [reason.slug for reason in judged(None).void] == ["layouts-alike"]
    assert judged(Computing(7, OPENMP)).void == ()
    assert [reason.slug for reason in judged(Computing(0, SINGLE)).void] == ["layouts-alike"]
