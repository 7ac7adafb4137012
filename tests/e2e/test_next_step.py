"""The next step below an answer, typed as it is printed; on simulated boxes, and once on a real one."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from .sleeping_worker import sleeping_worker
from .typed import Done, Typed

PROFILES = Path(__file__).resolve().parents[2] / "configs" / "profiles"
WAITING, GIL = PROFILES / "waiting-bound.yaml", PROFILES / "gil-bound.yaml"
FEW = ("--cores", "4", "--window", "1m", "--warmup", "10s", "--study", "s.db")
FULL = ("--layouts", "4x1,8x1,2x1", "--strategy", "all")

#: what is typed -> the step that follows, and exit codes of its command
CASES: dict[str, tuple[tuple[str | Path, ...], str, set[int]]] = {
    "edge": (("--simulate", WAITING, "--layouts", "1x2,4x2", "--within", "20%"), "edge", {0}),
    "first-look": (("--simulate", GIL, "--quick"), "first-look", {0, 5}),
    "too-noisy": (("--simulate", GIL, *FULL, "--repeats", "1"), "too-noisy", {0}),
    "limits": (("--simulate", GIL, *FULL, "--repeats", "3", "--max-load", "1"), "limits", {0}),
    "go-on": (
        ("--simulate", GIL, "--layouts", "4x1,5x1,6x1,8x1", "--within", "0.5%", "--budget", "15m"),
        "go-on",
        {0, 5},
    ),
    "simulated": (("--simulate", GIL, *FULL, "--repeats", "3"), "simulated", {0}),
}


@pytest.fixture
def tuner(tmp_path: Path) -> Typed:
    return Typed(tmp_path)


def step_of(tuner: Typed, file: str = "s.db") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tuner("rank", file, "--json").stdout)["next_step"]
    return found


def typed_as_printed(tuner: Typed, step: dict[str, Any]) -> Done:
    program, *words = shlex.split(step["command"])
    assert program == "tuner"
    return tuner(*words)


@pytest.mark.parametrize("case", CASES)
def test_a_study_ends_with_a_command_that_works_as_it_is_printed(tuner: Typed, case: str) -> None:
    asked, slug, codes = CASES[case]
    done = tuner("grid", *asked, *FEW)

    step = step_of(tuner)
    ended = f"Next step: {step['sentence']}\n    {step['command']}\n"
    assert step["slug"] == slug, step
    assert done.stdout.endswith(ended)
    assert done.stdout.count("Next step") == 1
    assert tuner("rank", "s.db").stdout.endswith(ended)

    then = typed_as_printed(tuner, step)
    assert then.returncode in codes, then.stderr


def test_the_page_and_the_runbook_have_the_same_step_once(tuner: Typed) -> None:
    tuner("grid", *CASES["too-noisy"][0], *FEW)
    step = step_of(tuner)

    runbook = tuner("export", "s.db", "--page").stdout
    tuner("report", "s.db", "-o", "s.html")
    page = (tuner.folder / "s.html").read_text(encoding="utf-8")

    for text in (runbook, page):
        assert text.count("Next step") == 1
        assert text.count(step["command"]) == 1


def test_a_study_like_another_has_its_settings_but_for_what_is_typed(tuner: Typed) -> None:
    tuner("grid", *CASES["too-noisy"][0], *FEW, "--seed", "7")

    done = tuner("grid", "--like", "s.db", "--repeats", "2", "--json")
    again = tuner("grid", "--like", "s.2.tuner.db", "--layouts", "4x1,8x1", "--json")

    study, other = (json.loads(one.stdout)["study"] for one in (done, again))
    assert (study["seed"], study["window_s"], study["n_blocks"]) == (7, 60.0, 2)
    assert (other["layouts"], other["n_blocks"]) == (["4x1", "8x1"], 2)
    assert (tuner.folder / "s.3.tuner.db").exists()
    assert "with the settings of s.db, in s.2.tuner.db" in done.stderr


def test_a_full_study_after_a_first_look_has_none_of_its_short_windows(tuner: Typed) -> None:
    tuner("grid", *CASES["first-look"][0], "--cores", "4", "--study", "s.db")

    typed_as_printed(tuner, step_of(tuner))

    facts = json.loads(tuner("rank", "s.2.tuner.db", "--json").stdout)["study"]
    assert (facts["strategy"], facts["window_s"], facts["foreign_limit_cores"]) == ("race", 600.0, None)


def test_a_check_is_not_like_a_study_of_layouts(tuner: Typed) -> None:
    tuner("grid", *CASES["simulated"][0], *FEW)
    tuner("check", "s.db", "--to", "c.db", "--budget", "1h")

    done = tuner("grid", "--like", "c.db")

    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "Error: --like c.db: the file is a check"


def test_a_simulated_study_continues_and_is_checked_by_the_profile_that_it_keeps(tuner: Typed) -> None:
    profile = tuner.folder / "p.yaml"
    profile.write_text(GIL.read_text(encoding="utf-8"), encoding="utf-8")
    tuner("grid", "--simulate", profile, *FULL, "--repeats", "2", *FEW)
    profile.unlink()

    resumed, checked = tuner("grid", "--resume", "s.db"), tuner("check", "s.db", "--budget", "1h")

    assert resumed.returncode == 0, resumed.stderr
    assert checked.returncode in (0, 5), checked.stderr


@pytest.mark.integration
def test_a_real_study_is_followed_by_one_with_the_layouts_that_are_left(tuner: Typed) -> None:
    (tuner.folder / "worker.py").write_text(sleeping_worker("0.02"))
    config = tuner.folder / "s.yaml"
    config.write_text(
        f"service:\n  kind: script\n  name: sleeper\n  command: [{sys.executable}, worker.py]\n"
        f"  directory: {tuner.folder}\n"
        "study: {layouts: [1x1, 1x2], window: 1s, warmup: 0s, warm_cache: no, strategy: all, repeats: 1,"
        " foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )
    done = tuner("grid", config, "--study", "s.db")
    assert done.returncode == 0, done.stderr

    then = tuner("grid", "--like", "s.db", "--layouts", "1x2,1x4")

    assert then.returncode == 0, then.stderr
    assert json.loads(tuner("rank", "s.2.tuner.db", "--json").stdout)["study"]["layouts"] == ["1x2", "1x4"]
