"""Limits, objectives and trade-offs on the command line, on a study of the virtual box."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.virtual.box import Noise, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, PlannedStop
from tuner.core.domain.layout import parse_layout
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.run import run_study

from ..wording import wording
from .typed import Typed

#: layout -> items per second, load; 12x2 gives what 24x1 gives for four fifths of the load
TRUTH = {"24x1": (43.0, 24.0), "12x2": (43.0, 19.2), "8x3": (40.0, 16.0), "2x12": (28.0, 17.0)}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    layouts = {parse_layout(text): truth for text, truth in TRUTH.items()}
    service = VirtualService(
        {layout: items for layout, (items, _) in layouts.items()},
        {layout: load for layout, (_, load) in layouts.items()},
    )
    file = tmp_path_factory.mktemp("study") / "virtual.tuner.db"
    asked = virtual_study(service, n_blocks=8, window_s=60.0, warmup_s=10.0, windows_per_launch=2)
    with SqliteStore.create(file, asked) as store:
        noise = Noise(window_sd=0.002, launch_sd=0.002, drift_sd=0.005, sample_sd=0.02)
        box = VirtualBox(service, noise, seed=3, clock=VirtualClock.resumed(store)).box()
        run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))
    return file


def test_the_best_of_what_keeps_the_load_is_ranked_first_and_the_rest_is_shown(
    typed: Typed, study: Path
) -> None:
    done = typed("rank", study, "--max-load", "20", "--max-memory", "1G")

    assert done.returncode == 0, done.stderr
    assert wording("rank.what-keeps-load-most") in done.stdout
    assert wording("rank.what-may-win-load") in done.stdout
    content = json.loads(typed("rank", study, "--max-load", "20", "--json").stdout)
    assert {row["layout"]: row["limits"]["verdict"] for row in content["layouts"]} == {
        "12x2": "within", "8x3": "within", "2x12": "within", "24x1": "beyond",
    }  # fmt: skip


def test_the_finding_is_reported_in_a_sentence(typed: Typed, study: Path) -> None:
    done = typed("rank", study, "--pareto")

    assert done.returncode == 0, done.stderr
    assert re.search(r"^12x2 matches 24x1 within 2 % at (79|80)\S* % of the load", done.stdout, re.MULTILINE)
    assert wording("rank.beaten-x") in done.stdout
    assert wording("rank.what-more-memory-buys") in done.stdout
    only = typed("rank", study, "--costs", "cpu", "--within", "1%").stdout
    assert wording("rank.what-more-cpu-buys") in only
    assert wording("rank.what-more-load-buys") not in only


def test_no_layout_that_keeps_the_limits_is_an_answer_weaker_than_asked(typed: Typed, study: Path) -> None:
    done = typed("rank", study, "--max-load", "2")

    assert done.returncode == 5
    assert wording("rank.no-layout-keeps", limits="load at most 2") in done.stdout


def test_items_per_cpu_second_can_be_the_objective(typed: Typed, study: Path) -> None:
    done = typed("rank", study, "--objective", "throughput-per-cpu")

    assert done.returncode == 0, done.stderr
    assert "items/CPU s" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--max-load", "low"), "Error: --max-load: 'low' is not a load average\n"),
        (("--max-memory", "8"), "Error: --max-memory: '8' has no unit\n"),
        (("--max-p95", "2s"), "Error: --max-p95: this service does not report latency\n"),
        (("--objective", "speed"), "Error: --objective: no such objective: 'speed'\n"),
        (("--costs", "disk"), "Error: --costs: no such cost: 'disk'\n"),
        (("--within", "2"), "Error: --within: '2' is not a margin above 0 and below 50 %\n"),
        (("--within", "1%"), "Error: --within needs --costs, or a fleet"),
    ],
)
def test_what_cannot_be_asked_is_reported_in_one_line(
    typed: Typed, study: Path, options: tuple[str, str], said: str
) -> None:
    command = "export" if options[0] == "--max-load" else "rank"
    done = typed(command, study, *options)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) <= 2


def test_a_runbook_remembers_the_limits_and_the_trade_offs_it_was_made_with(
    typed: Typed, study: Path
) -> None:
    made = typed("export", study, "--into", "RUNBOOK.md", "--max-load", "20", "--pareto")

    assert made.returncode == 0, made.stderr
    text = (typed.folder / "RUNBOOK.md").read_text()
    assert "made with --max-load 20 --costs load,memory" in text
    assert "24x1 | no" in text.replace("   ", " ").replace("  ", " ")
    assert typed("export", study, "--into", "RUNBOOK.md", "--check").returncode == 0
    assert typed("export", study, "--into", "RUNBOOK.md", "--check", "--max-load", "10").returncode == 4
