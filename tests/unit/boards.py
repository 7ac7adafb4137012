"""Boards to be shown: a race, a full grid, with limits, over, cut off, hostile, and crowded."""

from __future__ import annotations

from dataclasses import replace

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.limits import Limit, LimitVerdict, Verdict
from tuner.core.domain.live import BoxLive, Live, Phase
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.strategy import Answer
from tuner.core.ranking.live_status import Board, LayoutStatus, Stage
from tuner.core.stats.interval import Estimate

NOW_S = 1_790_000_000.0


def study_of(layouts: list[str], strategy: str = "race", **more: object) -> StudyRecord:
    fields: dict[str, object] = {
        "service": "crash-processor",
        "strategy": strategy,
        "layouts": tuple(map(parse_layout, layouts)),
        "cores": 24,
        "box_cores": 24.0,
        "window_s": 600.0,
        "warmup_s": None,
        "n_blocks": 3 if strategy == "all" else 0,
        "windows_per_launch": 1,
        "seed": 1,
        "budget_s": None,
        "created_wall_s": NOW_S - 7200,
        "config": StoredConfig("{}"),
        "provenance": Provenance(host="stage-1"),
        **more,
    }
    return StudyRecord(**fields)  # type: ignore[arg-type]


def place(
    layout: str,
    state: str,
    mean: float | None = None,
    spread: float = 0.0,
    n: int = 1,
    void: int = 0,
    behind: float | None = None,
    reason: str | None = None,
    verdict: Verdict | None = None,
) -> LayoutStatus:
    value = (
        Estimate(None)
        if mean is None
        else Estimate(mean, *((mean - spread, mean + spread) if spread else ()))
    )
    return LayoutStatus(parse_layout(layout), state, value, behind, n, void, reason, verdict)  # type: ignore[arg-type]


def beyond(name: str, at_most: float, level: float) -> Verdict:
    """Shown to pass one limit."""
    limit = Limit(name, at_most)  # type: ignore[arg-type]
    return Verdict("beyond", (LimitVerdict(limit, "beyond", 5, level, 0.01, 4.0, 0.01),))


def not_shown(name: str, at_most: float, level: float) -> Verdict:
    """Not known to keep one limit."""
    limit = Limit(name, at_most)  # type: ignore[arg-type]
    return Verdict("open", (LimitVerdict(limit, "open", 2, level, 0.1, 1.0, 0.01),))


def live_of(layout: str, **more: object) -> Live:
    fields: dict[str, object] = {
        "at_wall_s": NOW_S - 1,
        "phase": "window",
        "layout": parse_layout(layout),
        "block": 11,
        "elapsed_s": 239.0,
        "window_s": 600.0,
        "items_per_s": 4.35,
        "load1": 17.5,
        "n_active": 21,
        "n_taken": 37,
        "n_planned": 52,
        "remaining_s": 9600.0,
        "warnings": (("left-out", "24x1 gave no valid window at any attempt; it is left out"),),
        **more,
    }
    return Live(**fields)  # type: ignore[arg-type]


def race(stage: Stage = "running") -> Board:
    places = (
        place("4x6", "leads", 2612, 40, 6),
        place("6x4", "open", 2596, 45, 5, void=1),
        place("8x3", "open", 2540, 80, 3),
        place("2x12", "behind", 2301, 100, 2, behind=0.066),
        place("1x24", "behind", 1432, 120, 1, behind=0.31),
        place("24x1", "failed", n=0, reason="worker 3 ended with exit code 1 after 2 s: out of memory"),
        place("12x2", "unseen", n=0),
    )
    study = study_of([str(one.layout) for one in places], budget_s=28800.0)
    answer = Answer(Layout(4, 6), False, "strict", (Layout(6, 4), Layout(8, 3)), 0.41)
    return Board(study, stage, places, answer, live_of("6x4") if stage == "running" else None, rest_s=9600.0)


def in_turns() -> Board:
    """Layouts that stay started and take turns."""
    started = tuple(parse_layout(layout) for layout in ("4x6", "6x4", "8x3"))
    return replace(race(), live=live_of("6x4", started=started, elapsed_s=7.0, window_s=20.0, warnings=()))


def grid() -> Board:
    places = (
        place("4x6", "leads", 26120, 700, 2),
        place("6x4", "open", 25960, 900, 2),
        place("1x24", "behind", 14320, 1000, 2, behind=0.4),
    )
    study = study_of([str(one.layout) for one in places], "all", n_blocks=3)
    live = live_of(
        "1x24", phase="warming-up", block=2, window_s=None, elapsed_s=14.0, items_per_s=None, load1=None,
        n_active=None, n_taken=6, n_planned=9, remaining_s=None, warnings=(),
    )  # fmt: skip
    return Board(study, "running", places, Answer(Layout(4, 6), False, "none", (Layout(6, 4),)), live)


def box_of(box: str, layout: str | None, phase: Phase = "window", **more: object) -> BoxLive:
    fields: dict[str, object] = {
        "box": box,
        "phase": phase,
        "layout": None if layout is None else parse_layout(layout),
        "block": 3,
        "elapsed_s": 239.0,
        "window_s": 600.0 if phase == "window" else None,
        "items_per_s": 4.35 if phase == "window" else None,
        "load1": 17.5,
        "n_active": 21,
        **more,
    }
    return BoxLive(**fields)  # type: ignore[arg-type]


def fleet() -> Board:
    """Several launches run at a time."""
    boxes = (
        box_of("box-1", "4x6"),
        box_of("box-2", "6x4", elapsed_s=30.0, items_per_s=4.1),
        box_of("box-3-with-a-long-name-of-its-own", "1x24", "warming-up", elapsed_s=14.0),
        box_of("box-4", "8x3", "starting", elapsed_s=1.0, block=-1),
        box_of("box-5", None, "between"),
    )
    found = race()
    assert found.live is not None
    return replace(found, live=replace(found.live, boxes=boxes), n_boxes=5)


def over() -> Board:
    places = (
        place("4x6", "leads", 2612, 20, 9),
        place("6x4", "open", 2600, 25, 8),
        place("1x24", "behind", 1432, 90, 2, behind=0.4),
    )
    study = study_of([str(one.layout) for one in places])
    return Board(study, "over", places, Answer(Layout(4, 6), True, "strict", (Layout(6, 4),), 0.03))


def limited() -> Board:
    places = (
        place("2x6", "leads", 1612, 20, 4),
        place("6x4", "open", 1608, 60, 1, verdict=not_shown("memory_bytes", 8 * 2.0**30, 7.9 * 2.0**30)),
        place("4x6", "kept-out", 2600, 25, 5, reason="it is so", verdict=beyond("load", 20.0, 21.4)),
        place("8x3", "kept-out", 2590, 25, 5, reason="so", verdict=beyond("memory_bytes", 2.0**33, 9.3e9)),
        place(
            "12x4",
            "left-out",
            n=0,
            void=0,
            reason="left out by a safety limit 40 s into its launch: load 96, over 64",
        ),
    )
    study = study_of(
        [str(one.layout) for one in places],
        limits={"load": 20.0, "memory_bytes": 8 * 2.0**30},
        budget_s=28800.0,
    )
    answer = Answer(Layout(2, 6), False, "strict", (Layout(6, 4),), 0.2)
    return Board(study, "at-rest", places, answer, is_spent=True)


def hostile() -> Board:
    evil = "\x1b]0;owned\x07\x1b[2J[red]x[/red]\u202eexe.txt\r\n\x9b31m日本語"
    places = (
        place("4x6@gevent.very-long-name+x", "leads", 2612, 20, 9),
        place("6x4", "failed", n=0, reason=evil),
    )
    study = study_of(["4x6", "6x4"], provenance=Provenance(host=evil), service="crash-processor")
    live = live_of("6x4", warnings=(("launch-failed", evil),))
    return Board(study, "running", places, Answer(places[0].layout, False, "strict"), live)


def crowd(n: int = 500) -> Board:
    layouts = [f"{p}x{t}" for p in range(1, 26) for t in range(1, 21)][:n]
    places = [place(layouts[0], "leads", 9000, 50, 4)]
    places += [place(x, "open", 8990 - n, 60, 2) for n, x in enumerate(layouts[1:9])]
    places += [place(x, "behind", 8000 - 10 * n, 90, 1, behind=0.1) for n, x in enumerate(layouts[9:300])]
    places += [place(layouts[300], "failed", n=0, reason="no such file")]
    places += [place(x, "unseen", n=0) for x in layouts[301:]]
    answer = Answer(places[0].layout, False, "strict", tuple(one.layout for one in places[1:9]))
    return Board(study_of(layouts), "running", tuple(places), answer, live_of(layouts[120]))
