"""What binds layouts, on the command line: a simulated study, old files, and files that tell nothing."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pytest

from tuner.adapters.clock import VirtualClock
from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.virtual.memory import MemoryProgress, PlannedStop
from tuner.adapters.virtual.profile import profile_box
from tuner.adapters.virtual.service import VirtualService, virtual_study
from tuner.core.domain.layout import parse_layouts
from tuner.core.domain.provenance import Provenance
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.profile import Profile, ProfileMemory
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.run import run_study

from ..wording import wording
from .typed import Typed

ROOT = Path(__file__).resolve().parents[2]
#: of an older tuner, without clocks of workers and children
OLD = ROOT / "bench" / "studies" / "crash-processor-2-cores-busy.tuner.db"
LAYOUTS = "1x1,1x24,4x3,24x1"
#: 0.5 s with the GIL and 3 s of child in 4 s: 24x1 needs 21 of 24 cores, 1x24 more than its GIL can give
SERVICE = Profile(
    "simulated",
    Demands(gil_s=0.5, child_s=3.0, asleep_s=0.5),
    Machine(24),
    memory=ProfileMemory(200e6, 10e6, 5e6),
)


#: A process uses more than a core, so all layouts are fitted together; second threads of cores are at work.
SMT = Profile(
    "simulated",
    Demands(gil_s=0.02, python_s=0.18, asleep_s=0.1),
    Machine(8, 4, smt_gain_ratio=0.8),
    memory=ProfileMemory(200e6, 10e6, 5e6),
)


def simulated(file: Path, service: Profile, texts: str, **provenance: str) -> Path:
    layouts, cores = parse_layouts(texts), int(service.machine.cores)
    asked = virtual_study(
        VirtualService(dict.fromkeys(layouts, 1.0)), n_blocks=2, window_s=120.0, warmup_s=30.0, cores=cores,
        box_cores=float(cores), provenance=Provenance.from_mapping(provenance),
    )  # fmt: skip
    with SqliteStore.create(file, asked) as store:
        clock = VirtualClock.resumed(store)
        box = profile_box(
            service, cores=cores, n_layouts=len(layouts), seed="1", name="virtual", clock=clock
        ).box()
        run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))
    return file


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("study") / "virtual.tuner.db", SERVICE, LAYOUTS)


@pytest.fixture
def nothing(tmp_path: Path) -> Path:
    """A study that was cut off before its first window."""
    file = tmp_path / "nothing.tuner.db"
    asked = virtual_study(VirtualService(dict.fromkeys(parse_layouts(LAYOUTS), 1.0)))
    SqliteStore.create(file, asked).close()
    return file


def test_each_layout_has_a_sentence_and_the_service_its_rules(typed: Typed, study: Path) -> None:
    done = typed("explain", study)

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith(wording("model.cores-are-busy", layout="24x1")) for line in lines)
    assert any(
        line.startswith(wording("model.gil-is-busy-percent")) and wording("model.threads-wait-for-it") in line
        for line in lines
    )
    assert any(line.startswith(wording("model.nothing-is-full")) for line in lines)
    assert any(": 24 / 0.875;" in line and line.startswith(wording("model.threads-in-all")) for line in lines)


def test_the_json_says_the_same_with_every_figure_measured_or_modelled(typed: Typed, study: Path) -> None:
    content = json.loads(typed("explain", study, "--json").stdout)

    assert {row["layout"]: row["bound_by"] for row in content["layouts"]} == {
        "24x1": ["cores"], "4x3": ["waiting"], "1x24": ["gil"], "1x1": ["waiting"],
    }  # fmt: skip
    (busy,) = [row for row in content["layouts"] if row["layout"] == "1x24"]
    assert busy["utilization"]["gil"]["source"] == "measured"
    assert busy["utilization"]["gil"]["value"] == pytest.approx(1.0, abs=0.05)
    assert busy["n_gil_waiting"]["source"] == "measured"
    assert sum(share["value"] for share in busy["shares"].values()) == pytest.approx(1.0)
    assert [rule["kind"] for rule in content["rules"]] == [
        "threads", "processes", "single-threads", "utilization",
    ]  # fmt: skip


def test_rules_for_another_box_say_what_lies_beyond_the_measured(typed: Typed, study: Path) -> None:
    rules = json.loads(typed("explain", study, "--cores", "96", "--json").stdout)["rules"]

    (total,) = [rule for rule in rules if rule["kind"] == "utilization"]
    assert total["count"] == pytest.approx(96 / 0.875, rel=0.02)
    (beyond,) = total["extrapolated"]
    busy = re.fullmatch(r"more than ([0-9.]+) cores busy", beyond)
    assert busy is not None
    assert float(busy[1]) == pytest.approx(22, abs=1)  # as 24x1 kept them


def test_that_a_gil_was_assumed_is_reported_and_that_there_is_one_is_not(typed: Typed, study: Path) -> None:
    known = simulated(typed.folder / "known.tuner.db", SERVICE, "1x1,1x4", worker_gil="on")

    assert typed("explain", study).stdout.count(wording("model.interpreter-unknown")) == 1
    assert "Which interpreter" not in typed("explain", known).stdout


def test_rules_are_for_second_threads_as_the_layouts_show_them(typed: Typed) -> None:
    """4 cores and 4 second threads that add 0.8 of one each; 0.3 is taken where nobody knows."""
    file = simulated(
        typed.folder / "smt.tuner.db", SMT, "1x1,1x4,1x12,4x2,8x2", threads_per_core="2", worker_gil="on"
    )

    (rule, *_) = json.loads(typed("explain", file, "--json").stdout)["rules"]

    speed = re.search(r"8 cores with the speed of ([0-9.]+) full cores", rule["reason"])
    assert speed is not None
    assert float(speed[1]) == pytest.approx(4 + 4 * 0.8, abs=0.3)


def test_a_limit_on_memory_binds_what_it_keeps_out(typed: Typed, study: Path) -> None:
    done = typed("explain", study, "--max-memory", "1G")

    assert done.returncode == 0, done.stderr
    assert wording("model.memory-of-layout") in done.stdout
    assert wording("model.gil-is-busy") in done.stdout
    rows = json.loads(typed("rank", study, "--max-memory", "1G", "--json").stdout)["layouts"]
    assert {row["layout"]: row["bound_by"] for row in rows}["24x1"] == ["memory"]


def test_what_passes_a_limit_is_reported_at_the_confidence_requested(typed: Typed) -> None:
    file = ROOT / "bench" / "studies" / "gunicorn-2-cores.tuner.db"

    binds = {
        level: "2x2@gthread: its memory is" in typed("explain", file, "--max-memory", "62.48M", *level).stdout
        for level in ((), ("--confidence", "80%"), ("--confidence", "0.999"))
    }

    assert binds == {(): False, ("--confidence", "80%"): True, ("--confidence", "0.999"): False}


def test_rank_export_and_runbook_carry_the_column(typed: Typed, study: Path) -> None:
    assert "bottleneck" in typed("rank", study).stdout
    rows = csv.DictReader(io.StringIO(typed("export", study, "--format", "csv").stdout))
    assert {row["layout"]: row["bound_by"] for row in rows} == {
        "24x1": "cores", "4x3": "waiting", "1x24": "gil", "1x1": "waiting",
    }  # fmt: skip
    typed("export", study, "--into", "RUNBOOK.md")
    assert "| bottleneck " in (typed.folder / "RUNBOOK.md").read_text()


def test_an_old_file_has_no_column_and_says_why_once(typed: Typed, tmp_path: Path) -> None:
    file = shutil.copy(OLD, tmp_path / "old.tuner.db")

    explained, ranked = typed("explain", file), typed("rank", file)

    assert explained.returncode == 3
    assert wording("model.what-binds-is-not-known-for-lack-of-windows") in explained.stdout
    assert json.loads(typed("explain", file, "--json").stdout)["layouts"] == []
    assert ranked.returncode == 0, ranked.stderr
    assert ranked.stdout.count(wording("model.what-binds-is-not-known")) == 1
    assert "bottleneck" not in ranked.stdout.replace("bottlenecks", "")


def test_a_study_without_windows_says_so(typed: Typed, nothing: Path) -> None:
    done = typed("explain", nothing)

    assert (done.returncode, done.stderr) == (3, "")
    assert wording("model.no-window-of-the-file-counts") in done.stdout
    assert "What binds" not in typed("rank", nothing).stdout  # that nothing was measured is told already


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("missing.tuner.db",), "Error: there is no study file missing.tuner.db"),
        ((__file__,), f"Error: {__file__}"),
        (("{study}", "--max-memory", "8"), "Error: --max-memory: '8' has no unit"),
        (("{study}", "--cores", "0"), "Error: --cores: "),
        (("{study}", "--confidence", "2"), "Error: --confidence: should be from 50% to 99.9%"),
        (("{study}", "--confidence", "80%"), "Error: {study} has no limits, and --confidence is of these"),
    ],
)
def test_what_cannot_be_explained_is_reported_in_one_line(
    typed: Typed, study: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = typed("explain", *(argument.format(study=study) for argument in arguments))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said.format(study=study))
    assert len(done.stderr.splitlines()) <= 2


def test_a_service_without_threads_is_explained_and_predicted_in_processes(typed: Typed) -> None:
    file = simulated(typed.folder / "pool.tuner.db", SERVICE, "1x-,2x-,4x-,12x-,24x-")

    explained, predicted = typed("explain", file).stdout, typed("predict", file, "--cores", "48", "--json")

    assert wording("model.cores-are-busy", layout="24x-") in explained
    assert wording("model.processes-that-fill-the-box-listed") in explained
    assert " threads that fill " not in explained
    layouts = {row["layout"]: row["threads"] for row in json.loads(predicted.stdout)["layouts"]}
    assert {"1x-", "24x-", "96x-"} <= layouts.keys()
    assert set(layouts.values()) == {None}
    refused = typed("predict", file, "--layouts", "8x-,2x2")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert wording("model.option-layouts-has-threads") in refused.stderr
