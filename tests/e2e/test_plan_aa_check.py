"""tuner plan, aa and check as an ops person types them, over scripts of the user's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from .sleeping_worker import sleeping_worker


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


@pytest.mark.long
@pytest.mark.integration
def test_an_answer_is_stale_once_the_service_has_changed(tuner) -> None:
    done = tuner("grid", config(tuner.folder), "--strategy", "all", "--repeats", "2")
    assert done.returncode == 0, done.stderr
    (tuner.folder / "as-it-was").unlink()

    stale = tuner("check", "sleeper.tuner.db", "--budget", "1m", "--kind", "strict")

    assert stale.returncode == 4, stale.stderr
    assert stale.stdout.startswith("1x5 is stale: 1x1 is better by more than 2 % ")
    assert (tuner.folder / "sleeper.check-1.tuner.db").exists()


@pytest.mark.long
@pytest.mark.integration
def test_an_answer_is_right_as_long_as_nothing_has_changed(tuner) -> None:
    done = tuner("grid", config(tuner.folder), "--strategy", "all", "--repeats", "2")
    assert done.returncode == 0, done.stderr

    right = tuner("check", "sleeper.tuner.db", "--budget", "1m", "--foreign-limit", "64", "--json")
    assert right.returncode == 0, right.stderr
    facts = json.loads(right.stdout)
    assert (facts["state"], facts["winner"], facts["kind"]) == ("right", "1x5", "calibrated")
    assert facts["claim"].startswith("1x5 is still right: within 2 % of 1x1, 95 %, calibrated, 2 blocks, ")


@pytest.mark.long
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
    assert "was begun by tuner aa" in other.stderr


@pytest.mark.long
@pytest.mark.integration
def test_a_pilot_tells_what_a_study_takes(tuner) -> None:
    done = tuner("plan", config(tuner.folder), "--pilot", "30s", "--json")

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
    again = tuner("plan", "sleeper.pilot.tuner.db")
    assert again.returncode == 0
    assert "What limits it (within 10 %, strict): " in again.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["aa"], "no layout is named"),
        (["aa", "--layout", "4x"], "--layout: '4x' is not a layout"),
        (["aa", "none.tuner.db"], "there is no study file none.tuner.db"),
        (["aa", "--layout", "1x1", "--repeats", "1"], "--repeats: should be greater than or equal to 2"),
        (["plan", "none.tuner.db"], "there is no study file none.tuner.db"),
        (["plan", "none.tuner.db", "--within", "2%"], "none.tuner.db is a study that was measured"),
        (["plan", "--pilot", "10"], "--pilot: '10' has no unit"),
        (["plan", "--layouts", "1x1"], "1x1 is the only layout"),
        (["check", "none.tuner.db"], "there is no study file none.tuner.db"),
        (["check", "x.tuner.db", "--kind", "sure"], "--kind sure: should be calibrated or strict"),
        (["check", "x.tuner.db", "--budget", "0s"], "--budget 0s: should be longer than 0"),
        (["check", "x.tuner.db", "--resume", "y.db", "--window", "1s"], "--window cannot change that"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_typed_wrong_is_told_in_one_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    from tuner.cli import run

    monkeypatch.chdir(tmp_path)
    code = run(arguments)

    told = capsys.readouterr()
    assert said in told.err.splitlines()[0]
    assert (code, told.out) == (2, "")
