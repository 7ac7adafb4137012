"""tuner calibrate and tuner predict as an ops person types them."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ..wording import wording
from .sleeping_worker import sleeping_worker
from .typed import Done, Typed

PROFILE = """\
name: shop
demands: {gil: 20ms, child: 60ms, asleep: 40ms, spread: 40%}
machine: {cores: 4}
noise: {window: 1%, launch: 1%}
memory: {process: 60MB, thread: 2MB, child: 25MB}
launch: {settle: 2s}
"""

Type = Callable[[str], Done]
STUDIES = Path(__file__).resolve().parents[2] / "bench" / "studies"


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    """Types `tuner ...`, a line of it, in a folder with a profile to simulate, which is the current one."""
    monkeypatch.chdir(tmp_path)
    Path("shop.yaml").write_text(PROFILE)
    tuner = Typed(tmp_path)
    return lambda line: tuner(*line.split())


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of six layouts of `shop.yaml`; nobody changes it."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "shop.yaml").write_text(PROFILE)
    layouts = ("--layouts", "1x1,2x1,4x1,8x1,1x4,2x4", "--strategy", "all")
    assert Typed(folder)("grid", "--simulate", "shop.yaml", *layouts, "--study", "s.tuner.db").returncode == 0
    return folder / "s.tuner.db"


@pytest.fixture
def study(typed: Type, simulated: Path) -> str:
    shutil.copy(simulated, "s.tuner.db")
    return "s.tuner.db"


def test_a_simulated_1x1_gives_back_what_it_was_simulated_with(typed: Type) -> None:
    code, out, err = typed("calibrate --simulate shop.yaml --into found.yaml --json")

    facts = json.loads(out)
    demands = {name: one["mean"] for name, one in facts["demands"].items()}
    assert code == 0
    assert (facts["simulated"], facts["method"], facts["windows"], facts["layouts"]) == (
        True,
        "alone",
        6,
        ["1x1"],
    )
    assert demands["gil_s"] == pytest.approx(0.02, rel=0.1)
    assert demands["child_s"] == pytest.approx(0.06, rel=0.1)
    assert demands["asleep_s"] == pytest.approx(0.04, rel=0.2)
    assert facts["held_out"] is None
    # The box of shop.yaml has 4 cores.
    assert wording("model.profile-found-yaml-tuner") in err
    again, same, _ = typed("calibrate simulated-shop.calibrate.tuner.db --json")
    assert (again, same) == (0, out)
    predicted = typed("predict found.yaml --cores 8 --json")
    assert predicted.returncode == 0, predicted.stderr
    assert json.loads(predicted.stdout)["machine"]["cores"] == 8


def test_a_study_tells_demands_with_every_layout_left_out_in_its_turn(typed: Type, study: str) -> None:
    code, out, _ = typed(f"calibrate {study} --json")

    facts = json.loads(out)
    assert code == 0
    assert facts["method"] == "joint"
    gil = facts["demands"]["gil_s"]
    assert gil["low"] < gil["mean"] < gil["high"]
    assert gil["mean"] == pytest.approx(0.02, rel=0.1)
    assert [row["layout"] for row in facts["held_out"]["layouts"]] == [
        "1x1",
        "1x4",
        "2x1",
        "2x4",
        "4x1",
        "8x1",
    ]
    assert facts["held_out"]["mean_ratio"] < 0.05
    text = typed(f"calibrate {study}")[1]
    assert text.startswith(wording("simulate.no-service-ran"))
    assert wording("model.error-of-left-out") in text


def test_what_was_measured_is_predicted_with_the_measured_beside_it(typed: Type, study: str) -> None:
    """Each of three launches and of their windows is off by 1 %: what a layout was measured at by 0.8 %."""
    code, out, _ = typed(f"predict {study} --json")

    facts = json.loads(out)
    rows = {row["layout"]: row for row in facts["layouts"]}
    assert code == 0
    assert set(rows) == {"1x1", "2x1", "4x1", "8x1", "1x4", "2x4"}
    for row in rows.values():
        given, seen = row["throughput_per_10min"], row["measured"]["throughput_per_10min"]
        assert given["mean"] == pytest.approx(seen, rel=0.04)
        assert given["low"] < given["mean"] < given["high"]
        assert row["beyond"] == []
    assert facts["best"] == "8x1"
    tables = typed(f"predict {study}").stdout.split("\n\n")
    head, _, *lines = next(table for table in tables if table.startswith("layout")).splitlines()
    at = re.split(r"  +", head).index("measured")
    assert {cells[0]: cells[at] for cells in (re.split(r"  +", line) for line in lines)} == {
        layout: f"{row['measured']['throughput_per_10min']:.0f}" for layout, row in rows.items()
    }


def test_other_cores_take_the_grid_and_are_marked_as_extrapolation(typed: Type, study: str) -> None:
    code, out, _ = typed(f"predict {study} --cores 24 --grid full --physical-cores 12 --json")

    facts = json.loads(out)
    rows = {row["layout"]: row for row in facts["layouts"]}
    assert code == 0
    assert len(rows) == 174
    assert facts["machine"] == {"cores": 24.0, "physical_cores": 12.0, "has_gil": True}
    assert rows["1x1"]["beyond"] == []
    assert any(re.fullmatch(r"more than 3\.9\d? cores busy", one) for one in rows["24x1"]["beyond"])
    assert "more than 8 processes" in rows["24x1"]["beyond"]
    assert wording("model.smt") in rows["24x2"]["beyond"]
    text = typed(f"predict {study} --cores 24 --grid full")[1]
    assert "... and 154 more: --all" in text
    assert wording("model.extrapolation") in text


def test_a_what_if_stands_beside_today(typed: Type, study: str) -> None:
    code, out, _ = typed(f"predict {study} --child-cpu x0.5 --wait +20ms --wait x2 --layouts 1x1,4x1 --json")

    facts = json.loads(out)
    rows = {row["layout"]: row for row in facts["layouts"]}
    assert code == 0
    assert facts["what_if"] == wording("model.what-if-told")
    today, then = (rows["1x1"][name]["mean"] for name in ("today_per_10min", "throughput_per_10min"))
    assert 600 / today == pytest.approx(0.12, rel=0.05)  # 20 + 60 + 40 ms
    assert 600 / then == pytest.approx(0.17, rel=0.05)  # 20 + 30 + (40 + 20) x 2
    text = typed(f"predict {study} --no-gil")[1]
    assert wording("model.what-if-no-gil") in text
    assert "today" in text


@pytest.mark.integration
def test_the_simulation_tells_how_long_items_take(typed: Type, study: str) -> None:
    code, out, _ = typed(f"predict {study} --by simulation --layouts 1x1,2x4 --json")
    network = json.loads(typed(f"predict {study} --layouts 1x1,2x4 --json")[1])

    facts = json.loads(out)
    assert code == 0
    assert facts["by"] == "simulation"
    for row, other in zip(facts["layouts"], network["layouts"], strict=True):
        mean = row["throughput_per_10min"]["mean"]
        threads = row["processes"] * row["threads"]
        assert mean == pytest.approx(other["throughput_per_10min"]["mean"], rel=0.05)
        assert row["residence_p95_s"] > 600 * threads / mean  # more than the mean
        assert other["residence_p95_s"] is None


def test_a_study_without_1x1_is_fitted_all_the_same_and_says_so(typed: Type) -> None:
    typed("grid --simulate shop.yaml --layouts 2x1,1x4,4x1 --strategy all --study s.tuner.db")

    code, out, _ = typed("calibrate s.tuner.db")

    assert code == 0
    assert wording("lab.layout-was-not-measured") in out


@pytest.mark.integration
def test_a_real_service_that_sleeps_is_found_to_sleep(tuner) -> None:
    # a millisecond of CPU an item: in two seconds the kernel's clock, which ticks in hundredths, sees it
    (tuner.folder / "worker.py").write_text(sleeping_worker("0.02 + 0 * sum(range(60_000))"))
    config = tuner.folder / "s.yaml"
    config.write_text(
        "service:\n  kind: script\n  name: sleeper\n"
        f"  command: [{sys.executable}, {tuner.folder / 'worker.py'}]\n  directory: {tuner.folder}\n"
        "study: {grid: small, within: 10%, window: 2s, warmup: 1s, warm_cache: no, foreign_limit: 1000,"
        " memory_pressure_limit: 1}\n"
    )

    done = tuner("calibrate", config, "--launches", "2", "--into", "p.yaml", "--json")

    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["layouts"], facts["windows"], facts["simulated"]) == (["1x1"], 4, False)
    assert facts["demands"]["asleep_s"]["share"] > 0.5
    assert facts["total_s"]["mean"] >= 0.02
    assert (tuner.folder / "p.yaml").exists()
    other = Typed(tuner.folder)("plan", "--resume", "sleeper.calibrate.tuner.db")
    assert wording("model.begun-tuner-calibrate") in other.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("calibrate none.tuner.db", "there is no study file none.tuner.db"),
        (
            "calibrate none.tuner.db --launches 2",
            "none.tuner.db is a finished measurement, so --launches",
        ),
        ("calibrate none.tuner.db --simulate shop.yaml", "so --simulate cannot be used"),
        ("calibrate --resume x.db --windows 2", "--windows can only be used with a new study"),
        (
            "calibrate --simulate shop.yaml --variant fast",
            "cannot simulate 1x1@fast: a profile has no variants",
        ),
        ("calibrate --variant fast", "1x1@fast: crash-processor has no variants"),
        (
            "predict shop.yaml --variant fast",
            "--variant fast: shop.yaml is a profile, and a profile has only one variant",
        ),
        ("calibrate --launches 0", "--launches: should be greater than or equal to 1"),
        ("calibrate --window 5", "--window: '5' has no unit"),
        ("calibrate --simulate shop.yaml --into shop.yaml", "shop.yaml exists already"),
        ("calibrate --simulate shop.yaml --into there/p.yaml", "there is no folder there"),
        ("calibrate --simulate shop.yaml --into p.json", "a profile is a YAML file"),
        ("calibrate --simulate none.yaml", "cannot read the profile none.yaml"),
        ("predict none.tuner.db", "there is no study file none.tuner.db"),
        ("predict none.yaml", "cannot read the profile none.yaml"),
        ("predict .", ". is a folder, not a study file"),
        ("predict shop.yaml --cores 0", "--cores: should be greater than or equal to 1"),
        ("predict shop.yaml --cores 5000", "--cores: should be less than or equal to 1024"),
        ("predict shop.yaml --physical-cores 8", "--physical-cores 8: the host has 4 cores in all"),
        ("predict shop.yaml --layouts 4x", "--layouts: '4x' is not a layout"),
        ("predict shop.yaml --layouts 4x1@fast", "4x1@fast is of another variant than the prediction"),
        ("predict shop.yaml --layouts 1x1 --grid full", "--layouts and --grid are two choices"),
        ("predict shop.yaml --grid all", "--grid all: should be one of small, divisors, full"),
        ("predict shop.yaml --by magic", "--by magic: should be network or simulation"),
        ("predict shop.yaml --wait 0.5", "--wait: '0.5' is no change"),
        ("predict shop.yaml --wait -1s", "--wait -1s: waiting asleep is 0.04 s of an item"),
        ("predict shop.yaml --child-cpu x-1", "--child-cpu: 'x-1' is no change"),
        ("predict shop.yaml --gil x0 --child-cpu x0 --wait x0", "leaves an item without any demand"),
        (
            "predict shop.yaml --by simulation --layouts 4x256 --cores 2",
            "4x256 cannot be simulated: 1024 tasks",
        ),
        (
            "predict no-turns.yaml --layouts 1x4",
            "no-turns.yaml:3:38: machine.switch_interval: should be longer",
        ),
        ("predict slow-turns.yaml --by simulation --layouts 1x4", "1x4 cannot be simulated: handover"),
    ],
    ids=lambda value: value if value.startswith(("calibrate", "predict")) else "",
)
def test_what_is_typed_wrong_is_reported_in_one_line(line: str, said: str, typed: Type) -> None:
    for name, wrong in (("no-turns", "switch_interval: 0s"), ("slow-turns", "handover: 1ms")):
        Path(f"{name}.yaml").write_text(PROFILE.replace("cores: 4", f"cores: 4, {wrong}"))

    code, out, err = typed(line)

    assert said in err.splitlines()[0]
    assert (code, out) == (2, "")


def test_processes_or_threads_is_answered_in_one_table_over_all_variants(typed: Type) -> None:
    shutil.copy(STUDIES / "celery-mixed-2-cores.tuner.db", "c.tuner.db")

    code, out, err = typed("predict c.tuner.db")
    table = json.loads(typed("predict c.tuner.db --json").stdout)["processes_or_threads"]
    explained = typed("explain c.tuner.db").stdout
    (other,) = {row["variant"] for row in table} - {table[0]["variant"]}
    one = typed("predict c.tuner.db --variant prefork").stdout

    assert code == 0, err
    assert "Processes or threads? (predicted on 2 cores)\n" in out
    assert out.count("Processes or threads?") == 1
    assert {(row["variant"], row["shape"]) for row in table} == {
        *(("threads", shape) for shape in ("processes", "threads", "both")),
        ("prefork", "processes"),
    }
    assert {row["standing"] for row in table} == {"unknown"}  # the model is off by 12 %
    assert f"--variant {other} shows others" in out
    assert "Processes or threads? The smallest layout of each shape" in explained
    assert "Processes or threads?" not in one


@pytest.mark.parametrize("variant", ["prefork", "threads"])
def test_memory_is_predicted_as_measured_although_all_processes_share_some(typed: Type, variant: str) -> None:
    """Prefork has a main process of 43 MB, whose CPU is not that of children which items start. In proportion
    to processes, one process had 42 MB instead of 69 MB."""
    shutil.copy(STUDIES / "celery-mixed-2-cores.tuner.db", "c.tuner.db")

    predicted = json.loads(typed(f"predict c.tuner.db --variant {variant} --json").stdout)["layouts"]

    assert len(predicted) >= 3
    for row in predicted:
        assert row["memory_bytes"]["mean"] == pytest.approx(row["measured"]["pss_bytes"], rel=0.02)


def test_a_race_is_explained_and_predicted_with_the_throughputs_of_its_ranking(typed: Type) -> None:
    Path("noisy.yaml").write_text(PROFILE.replace("launch: 1%}", "launch: 4%, drift: 10%}"))
    typed(
        "grid --simulate noisy.yaml --layouts 1x1,2x1,4x1,1x2 --strategy race --budget 1h --study r.tuner.db"
    )

    ranked = json.loads(typed("rank r.tuner.db --json").stdout)["layouts"]
    explained = json.loads(typed("explain r.tuner.db --json").stdout)["layouts"]
    predicted = json.loads(typed("predict r.tuner.db --json").stdout)["layouts"]

    means = {row["layout"]: row["throughput_per_10min"]["mean"] for row in ranked}
    assert len(means) == 4
    assert {row["layout"]: row["throughput_per_10min"] for row in explained} == pytest.approx(means)
    measured = {row["layout"]: row["measured"]["throughput_per_10min"] for row in predicted}
    assert measured == pytest.approx(means)


def test_a_variant_that_a_study_has_not_is_reported_with_those_it_has(typed: Type, study: str) -> None:
    for command in ("calibrate", "predict"):
        code, out, err = typed(f"{command} {study} --variant fast")

        assert (code, out) == (2, "")
        assert err.splitlines()[0] == (wording("model.variant-without-window"))


def test_a_service_without_a_gil_is_known_as_one(typed: Type) -> None:
    """Threads do as well as processes: with a GIL 20 of 66 ms would hold four threads to three times one."""
    Path("free.yaml").write_text(PROFILE.replace("{cores: 4}", "{cores: 4, gil: no}").replace("60ms", "6ms"))
    typed("grid --simulate free.yaml --layouts 1x1,1x4,4x1 --strategy all --study s.tuner.db")

    facts = json.loads(typed("calibrate s.tuner.db --json")[1])
    rows = json.loads(typed("predict s.tuner.db --json")[1])["layouts"]

    assert facts["machine"]["has_gil"] is False
    assert wording("model.python-with-the-gil") not in typed("calibrate s.tuner.db")[1]
    given = {row["layout"]: row["throughput_per_10min"]["mean"] for row in rows}
    assert given["1x4"] == pytest.approx(given["4x1"], rel=0.001)
    assert [row["beyond"] for row in rows] == [[], [], []]


def test_a_study_with_nothing_that_counts_has_nothing_to_calibrate_on(typed: Type) -> None:
    Path("dry.yaml").write_text(PROFILE + "failures: {dry: 100%}\n")
    typed("grid --simulate dry.yaml --layouts 1x1,2x1 --strategy all --repeats 1 --study dry.tuner.db")

    code, out, err = typed("calibrate dry.tuner.db")

    assert (code, out) == (2, "")
    assert err.splitlines()[0] == (wording("model.nothing-to-calibrate-on"))


def test_a_study_of_one_layout_that_is_not_1x1_is_named_with_what_it_lacks(typed: Type) -> None:
    typed("grid --simulate shop.yaml --layouts 2x2 --strategy all --repeats 1 --study s.tuner.db")

    code, out, err = typed("predict s.tuner.db")

    assert (code, out) == (2, "")
    assert err.startswith(wording("model.layout-alone-cannot-tell"))
