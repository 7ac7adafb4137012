"""tuner plan, aa and check as an ops person types them, over scripts of the user's own."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ..wording import wording
from .sleeping_worker import sleeping_worker
from .typed import Typed

PROFILE = Path(__file__).resolve().parents[2] / "configs" / "profiles" / "gil-bound.yaml"


def config(folder: Path) -> Path:
    """Workers that sleep: more threads do more, as long as `as-it-was` lies beside them, and then less."""
    (folder / "worker.py").write_text(
        sleeping_worker('0.02 if os.path.exists("as-it-was") else 0.02 * n_threads**2')
    )
    (folder / "as-it-was").touch()
    path = folder / "s.yaml"
    path.write_text(
        f"service:\n  kind: script\n  name: sleeper\n  command: [{sys.executable}, {folder / 'worker.py'}]\n"
        f"  directory: {folder}\n"
        "study: {layouts: [1x1, 1x5], window: 1s, warmup: 1s, within: 10%, warm_cache: no,"
        " foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )
    return path


@pytest.mark.integration
def test_an_answer_is_stale_once_the_service_has_changed(tuner) -> None:
    done = tuner("grid", config(tuner.folder), "--strategy", "all", "--repeats", "2")
    assert done.returncode == 0, done.stderr
    (tuner.folder / "as-it-was").unlink()

    stale = tuner("check", "sleeper.tuner.db", "--budget", "1m", "--kind", "strict")

    assert stale.returncode == 4, stale.stderr
    assert stale.stdout.startswith(wording("check.is-stale-at-the-end"))
    assert (tuner.folder / "sleeper.check-1.tuner.db").exists()


@pytest.mark.full
@pytest.mark.integration
def test_an_answer_is_right_as_long_as_nothing_has_changed(tuner) -> None:
    done = tuner("grid", config(tuner.folder), "--strategy", "all", "--repeats", "2")
    assert done.returncode == 0, done.stderr

    right = tuner("check", "sleeper.tuner.db", "--budget", "1m", "--foreign-limit", "64", "--json")
    assert right.returncode == 0, right.stderr
    facts = json.loads(right.stdout)
    assert (facts["state"], facts["winner"], facts["kind"]) == ("right", "1x5", "calibrated")
    assert facts["claim"].startswith(wording("check.is-still-right-in-two-blocks"))


@pytest.mark.integration
def test_a_layout_against_itself_counts_its_false_alarms(tuner) -> None:
    done = tuner("aa", config(tuner.folder), "--layout", "1x5", "--repeats", "2", "--json")

    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["layout"], facts["pairs"]) == ("1x5", 2)
    assert [rate["rule"] for rate in facts["false_alarms"]] == ["ranking", "race", "welch"]
    assert {rate["labellings"] for rate in facts["false_alarms"]} == {4}
    assert [one["hours"] for one in facts["detectable"]] == [1.0, 4.0, 8.0]
    assert tuner("aa", "sleeper.aa.tuner.db", "--json").stdout == done.stdout
    other = tuner("plan", "--resume", "sleeper.aa.tuner.db")
    assert other.returncode == 2
    assert wording("check.begun-by-aa") in other.stderr


@pytest.mark.integration
def test_a_pilot_tells_what_a_study_takes(tuner) -> None:
    done = tuner("plan", config(tuner.folder), "--pilot", "30s", "--slices", "auto", "--json")

    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["pilot"]["launches"] == 4
    assert facts["within"] == 0.1
    assert {(cost["within"], cost["kind"]) for cost in facts["costs"]} == {
        (within, kind) for within in (0.01, 0.02, 0.05, 0.1) for kind in ("strict", "calibrated")
    }
    assert all(0 < cost["hours"]["mean"] <= cost["hours"]["p90"] * 2 for cost in facts["costs"])
    assert {one["cause"] for one in facts["limits"]["halved"]} == {
        "launch", "window", "drift", "restart", "ties",
    }  # fmt: skip
    assert facts["slices"]["layouts_in_turns"] == 1
    assert facts["slices"]["hours"] is None
    again = tuner("plan", "sleeper.pilot.tuner.db")
    assert again.returncode == 0
    assert wording("check.plan-not-in-turns") in again.stdout
    assert wording("compare.what-limits-it") in again.stdout


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study, a check of it, and pairs that are kept under a name of no kind."""
    tuner = Typed(tmp_path_factory.mktemp("simulated"))
    again = ("--simulate", PROFILE)
    done = [
        tuner("grid", *again, "--layouts", "8x1,1x8,4x2", "--strategy", "all", "--repeats", "2", "--window",
              "2m", "--warmup", "1m", "--seed", "7", "--max-attempts", "5", "--foreign-limit", "0.9",
              "--study", "s.tuner.db"),
        tuner("check", "s.tuner.db", *again, "--to", "c.tuner.db"),
        tuner("aa", *again, "--layout", "4x2", "--repeats", "2", "--study", "pairs"),
    ]  # fmt: skip
    assert [one.returncode for one in done] == [0, 0, 0], done
    return tuner.folder


@pytest.fixture
def typed(simulated: Path, tmp_path: Path) -> Typed:
    """Types in a folder of its own that has all of that."""
    for file in simulated.iterdir():
        shutil.copy(file, tmp_path)
    return Typed(tmp_path)


def asked_of(file: Path) -> tuple[float, ...]:
    with sqlite3.connect(file) as connection:
        (asked,) = connection.execute(
            "SELECT warmup_s, max_attempts, foreign_limit_cores, seed, box_cores FROM study"
        )
    connection.close()
    return tuple(asked)


def test_a_simulated_check_without_a_config_asks_for_what_the_study_did(typed: Typed) -> None:
    assert asked_of(typed.folder / "c.tuner.db") == (60.0, 5, 0.9, 7, 8.0)

    other = typed.folder / "other.yaml"
    other.write_text(PROFILE.read_text(encoding="utf-8").replace("cores: 8", "cores: 16"), encoding="utf-8")
    done = typed("check", "s.tuner.db", "--simulate", other, "--foreign-limit", "2", "--to", "other.db")

    assert done.returncode == 0, done.stderr
    assert asked_of(typed.folder / "other.db") == (60.0, 5, 2.0, 7, 8.0)  # the cores of the study's box


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (
            ("grid", "--resume", "c.tuner.db"),
            "Continue with: tuner check s.tuner.db --resume c.tuner.db",
        ),
        (
            ("check", "s.tuner.db", "--to", "c.tuner.db", "--simulate", PROFILE),
            "Continue it (--resume c.tuner.db), or give another name with --to.",
        ),
        (("plan", "--resume", "pairs"), "Continue with: tuner aa --resume pairs"),
        (("grid", "pairs"), "Rank it with tuner rank pairs, or continue it with --resume pairs."),
        (("aa", "s.tuner.db"), "tuner rank s.tuner.db shows it; tuner aa CONFIG --layout PxT makes one."),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_what_to_type_instead_is_a_command(
    typed: Typed, arguments: tuple[str | Path, ...], hint: str
) -> None:
    done = typed(*arguments)

    assert done.returncode == 2
    assert done.stderr.splitlines()[1] == hint
    if hint.startswith("Continue with: "):
        done = typed(*hint.removeprefix("Continue with: tuner ").split())
        assert done.returncode == 0, done.stderr


def test_a_study_without_an_answer_to_check_is_reported_with_where_to_look(typed: Typed) -> None:
    dry = typed.folder / "dry.yaml"
    dry.write_text(PROFILE.read_text() + "failures: {dry: 100%}\n")
    asked = ("--layouts", "1x1,2x1", "--strategy", "all", "--repeats", "1", "--study", "dry.tuner.db")
    typed("grid", "--simulate", dry, *asked)

    done = typed("check", "dry.tuner.db", "--simulate", dry)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-2:] == [
        wording("check.no-answer-to-check"),
        "tuner rank dry.tuner.db prints the reason.",
    ]


def test_a_study_is_known_by_what_it_holds_not_by_its_name(typed: Typed) -> None:
    kept = typed("calibrate", "--simulate", PROFILE, "--launches", "1", "--study", "anchor").stderr
    (line,) = [line for line in kept.splitlines() if line.startswith("Kept in anchor; ")]
    assert line == wording("model.kept-and-seen-again")

    for command, file in (("aa", "pairs"), ("plan", "pairs"), ("calibrate", "anchor")):
        done = typed(command, file)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(wording("simulate.no-service-ran"))
        there = typed(command, file, "--simulate", PROFILE)
        assert there.returncode == 2
        assert there.stderr.startswith(wording("simulate.measured-profile-runs-nothing", file=file))


def launches_of(file: Path) -> list[tuple[int, int | None, float]]:
    """Block, heat and length of windows of the launches of *file*."""
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT block, heat, window_s FROM launch WHERE block >= 0 ORDER BY id"
        return connection.execute(query).fetchall()


def test_the_layouts_of_a_check_take_turns_in_short_windows(typed: Typed) -> None:
    check = ("check", "s.tuner.db", "--simulate", PROFILE, "--foreign-limit", "2", "--budget", "15m")

    done = typed(*check, "--slices", "auto", "--to", "turns.db")
    again = typed(*check[:4], "--resume", "turns.db")

    assert done.returncode in (0, 4, 5)
    assert wording("check.take-turns") in done.stderr
    launches = launches_of(typed.folder / "turns.db")
    assert [block for block, _, _ in launches] == [n // 2 for n in range(len(launches))]
    assert {heat for _, heat, _ in launches} == {0}
    # 500 items of the slower layout; windows of the study have 2 minutes
    assert {length_s for _, _, length_s in launches} == {22.6}
    assert again.returncode == done.returncode
    off = typed(*check, "--slices", "off", "--to", "off.db")
    assert wording("check.take-turns") not in off.stderr
    assert {heat for _, heat, _ in launches_of(typed.folder / "off.db")} == {None}


def test_the_launches_of_a_pair_take_turns(typed: Typed) -> None:
    pairs = ("aa", "--simulate", PROFILE, "--layout", "4x2", "--repeats", "2", "--window", "30s")

    done = typed(*pairs, "--slices", "auto", "--study", "turns.db")

    assert done.returncode == 0, done.stderr
    assert [(block, heat) for block, heat, _ in launches_of(typed.folder / "turns.db")] == [
        (0, 0), (0, 0), (1, 0), (1, 0)
    ]  # fmt: skip
    assert typed("aa", "turns.db").stdout == done.stdout


def test_the_ranking_of_a_check_or_of_pairs_says_what_they_are(typed: Typed) -> None:
    check, pairs = typed("rank", "c.tuner.db"), typed("rank", "pairs")

    assert wording("check.begins") in check.stdout
    assert check.stdout.endswith("\n    tuner check s.tuner.db --resume c.tuner.db\n")
    text = ": 1 layout for 8 cores, compared with itself: 4 launches in pairs, each of 3 windows of 1m.\n"
    assert text in pairs.stdout
    assert "asked for" not in pairs.stdout  # all 12 windows are there
    assert pairs.stdout.endswith("\n    tuner aa pairs\n")
    assert typed("rank", "s.tuner.db").stderr == ""


def test_a_layout_to_check_is_one_that_can_be_simulated(typed: Typed) -> None:
    for layout, said in (("1x4@gevent", "a profile has no variants"), ("1x1000000", "has 1000000 threads")):
        done = typed("check", "s.tuner.db", "--current", layout, "--simulate", PROFILE)

        assert done.returncode == 2
        assert said in done.stderr.splitlines()[0]
    assert not (typed.folder / "s.check-1.tuner.db").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["aa"], "no layout is named"),
        (["aa", "--layout", "4x"], "--layout: '4x' is not a layout"),
        (["aa", "none.tuner.db"], "there is no study file none.tuner.db"),
        (["aa", "--layout", "1x1", "--repeats", "1"], "--repeats: should be greater than or equal to 2"),
        (["plan", "none.tuner.db"], "there is no study file none.tuner.db"),
        (["plan", "none.tuner.db", "--within", "2%"], "so --within cannot be used"),
        (["plan", "none.tuner.db", "--slices", "auto"], "there is no study file none.tuner.db"),
        (["plan", "none.tuner.db", "--slices", "on"], "--slices on: should be auto or off"),
        (["plan", "--pilot", "10"], "--pilot: '10' has no unit"),
        (["plan", "--layouts", "1x1"], "1x1 is the only layout"),
        (["check", "none.tuner.db"], "there is no study file none.tuner.db"),
        (["check", "x.tuner.db", "--kind", "sure"], "--kind sure: should be calibrated or strict"),
        (["check", "x.tuner.db", "--budget", "0s"], "--budget 0s: should be longer than 0"),
        (
            ["check", "x.tuner.db", "--resume", "y.db", "--window", "1s"],
            "--window can only be used with a new study",
        ),
        (
            ["check", "x.tuner.db", "--resume", "y.db", "--kind", "strict"],
            "--kind can only be used with a new study",
        ),
        (["check", "x.tuner.db", "--slices", "on"], "--slices on: should be auto or off"),
        (["check", "x.tuner.db", "--foreign-limit", "inf"], "--foreign-limit inf: should be a number of"),
        (["check", "x.tuner.db", "--foreign-limit", "nan"], "--foreign-limit nan: should be a number of"),
        (["check", "x.tuner.db", "--foreign-limit", "0"], "--foreign-limit 0: should be a number of"),
        (["aa", "--layout", "1x1", "--slices", "on"], "--slices on: should be auto or off"),
        (["aa", "x.tuner.db", "--windows-per-launch", "3"], "so --windows-per-launch cannot be used"),
        (
            ["aa", "--resume", "x.db", "--windows-per-launch", "3"],
            "--windows-per-launch can only be used with a new study",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_typed_wrong_is_reported_in_one_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    from tuner.cli import run

    monkeypatch.chdir(tmp_path)
    code = run(arguments)

    result = capsys.readouterr()
    assert said in result.err.splitlines()[0]
    assert (code, result.out) == (2, "")
