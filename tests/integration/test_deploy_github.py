"""deploy/github: a composite action as GitHub documents them, and its steps run as GitHub runs them.

The studies are simulated. Nothing is installed: tuner is put where the action's first step would put it.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ..e2e.typed import Typed

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "github"
ACTION = yaml.safe_load((FOLDER / "action.yml").read_text(encoding="utf-8"))
PROFILE = ROOT / "configs" / "profiles" / "socorro-2014.yaml"
FEW = "--cores 4 --layouts 4x1,2x2,1x4 --window 2m --warmup 1m --strategy all --repeats 4"

# What "Metadata syntax for GitHub Actions" has for composite actions.
KEYS = {"name", "author", "description", "inputs", "outputs", "runs", "branding"}
INPUT_KEYS = {"description", "required", "default", "deprecationMessage"}
OUTPUT_KEYS = {"description", "value"}
STEP_KEYS = {"name", "id", "if", "env", "run", "shell", "working-directory", "uses", "with"}
STEP_KEYS |= {"continue-on-error"}
COLOURS = {"white", "black", "yellow", "blue", "green", "orange", "red", "purple", "gray-dark"}
EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")


def test_the_action_has_only_keys_that_github_documents() -> None:
    inputs, outputs, runs = ACTION["inputs"], ACTION["outputs"], ACTION["runs"]

    assert set(ACTION) <= KEYS
    assert set(ACTION) >= {"name", "description", "runs"}
    assert set(ACTION["branding"]) == {"icon", "color"}
    assert ACTION["branding"]["color"] in COLOURS
    assert all(set(one) <= INPUT_KEYS and one["description"] for one in inputs.values())
    assert all(isinstance(one["default"], str) for one in inputs.values())
    assert all(set(one) == OUTPUT_KEYS and one["description"] for one in outputs.values())
    assert set(runs) == {"using", "steps"}
    assert runs["using"] == "composite"
    for step in runs["steps"]:
        assert set(step) <= STEP_KEYS
        assert ("run" in step) != ("uses" in step)
        assert "run" not in step or step["shell"] == "bash"  # required there
        assert all(isinstance(value, str) for value in step.get("env", {}).values())


def test_each_input_is_used_and_reaches_a_script_as_environment_only() -> None:
    steps = ACTION["runs"]["steps"]
    named = [name for step in steps for value in step["env"].values() for name in EXPRESSION.findall(value)]

    assert [step["run"] for step in steps if "${{" in step["run"]] == []  # it would run what an input says
    assert set(named) == {"runner.temp", *(f"inputs.{one}" for one in ACTION["inputs"])}


def test_each_output_is_one_that_the_script_writes() -> None:
    written = set(re.findall(r'"([\w-]+)=\$', (FOLDER / "study.sh").read_text(encoding="utf-8")))
    (step,) = (step for step in ACTION["runs"]["steps"] if "id" in step)

    assert {one["value"] for one in ACTION["outputs"].values()} == {
        f"${{{{ steps.{step['id']}.outputs.{name} }}}}" for name in written
    }
    assert set(ACTION["outputs"]) == written


def test_the_scripts_of_all_steps_are_bash_and_theirs_may_be_run() -> None:
    for step in ACTION["runs"]["steps"]:
        read = subprocess.run(["bash", "-n"], input=step["run"], capture_output=True, text=True)
        assert (read.returncode, read.stderr) == (0, "")
    script = FOLDER / "study.sh"

    assert script.stat().st_mode & stat.S_IXUSR
    assert subprocess.run(["bash", "-n", script], capture_output=True).returncode == 0


class Job:
    """A job of GitHub that uses the action, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.temporary = folder / "work", folder / "runner"
        self.summary, self._outputs = folder / "summary.md", folder / "outputs"
        programs = self.temporary / "tuner" / "bin"
        for path in (self.folder, programs):
            path.mkdir(parents=True)
        tuner = programs / "tuner"
        tuner.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from tuner.cli import main; main()' \"$@\"\n")
        tuner.chmod(0o755)

    def uses(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run the step that measures with *inputs* (`_` for `-`); the others have their default."""
        values: dict[str, Any] = {"runner.temp": str(self.temporary)}
        values |= {f"inputs.{name}": one["default"] for name, one in ACTION["inputs"].items()}
        values |= {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
        step = ACTION["runs"]["steps"][1]
        own = {
            name: EXPRESSION.sub(lambda match: values[match[1]], text) for name, text in step["env"].items()
        }
        github = {
            "GITHUB_ACTION_PATH": str(FOLDER),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_OUTPUT": str(self._outputs),
            "RUNNER_TEMP": str(self.temporary),
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env={**os.environ, **github, **own, "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
        )

    @property
    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self._outputs.read_text().splitlines())


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def simulated(folder: Path, study: str, profile: Path | str = PROFILE) -> None:
    done = Typed(folder)("grid", "--simulate", profile, *FEW.split(), "--study", study)
    assert done.returncode == 0, done.stderr


def test_a_study_leaves_its_ranking_in_the_summary_and_says_where_its_file_is(job: Job) -> None:
    done = job.uses(study="s.tuner.db", options=f"--simulate '{PROFILE}' {FEW}")

    assert done.returncode == 0, done.stderr
    summary = job.summary.read_text(encoding="utf-8")
    assert summary.startswith("## tuner grid\n")
    rows = [line for line in summary.splitlines() if line.startswith("| ")]
    assert {cell.strip() for row in rows for cell in row.split("|")} >= {"4x1", "2x2", "1x4"}
    assert job.outputs["study"] == "s.tuner.db"
    assert job.outputs["exit-code"] == "0"
    assert Path(job.outputs["markdown"]).read_text(encoding="utf-8") == summary
    assert (job.folder / "s.tuner.db").is_file()


def test_a_service_that_became_slower_fails_the_job_and_the_summary_has_the_comparison(job: Job) -> None:
    simulated(job.folder, "before.tuner.db")
    slow = job.folder / "slow.yaml"
    slow.write_text(PROFILE.read_text(encoding="utf-8").replace("child: 3.3s", "child: 6.6s"))

    done = job.uses(
        study="after.tuner.db",
        options=f"--simulate slow.yaml {FEW}",
        before="before.tuner.db",
        fail_if_slower="5%",
    )

    assert done.returncode == 4, done.stderr
    assert "::error title=tuner::" in done.stdout
    summary = job.summary.read_text(encoding="utf-8")
    assert "\n## What changed since before.tuner.db\n" in summary
    assert "All 3 layouts together" in summary
    assert job.outputs["exit-code"] == "0"  # the study itself went well


def test_a_check_leaves_its_answer_in_the_summary_and_ends_as_the_answer_is(job: Job) -> None:
    simulated(job.folder, "s.tuner.db")

    done = job.uses(command="check", study="s.tuner.db", options=f"--simulate '{PROFILE}'")

    code = int(job.outputs["exit-code"])
    assert code in {0, 4, 5}, done.stderr  # right, stale, not known yet
    assert done.returncode == {0: 0, 4: 4, 5: 0}[code]
    assert ("::error " in done.stdout, "::warning " in done.stdout) == (code == 4, code == 5)
    heading, text, end = job.summary.read_text(encoding="utf-8").split("````")
    assert heading == "## tuner check\n\n"
    assert text.removeprefix("text\n").strip() in done.stdout
    assert end == "\n"
    assert Path(job.outputs["study"]).is_file()


def test_two_uses_in_one_job_keep_their_summaries_apart(job: Job) -> None:
    first = job.uses(study="a.tuner.db", options=f"--simulate '{PROFILE}' {FEW}")
    markdown = job.outputs["markdown"]
    second = job.uses(study="b.tuner.db", options=f"--simulate '{PROFILE}' {FEW}")

    assert (first.returncode, second.returncode) == (0, 0)
    assert job.outputs["markdown"] != markdown
    assert job.summary.read_text(encoding="utf-8").count("## tuner grid\n") == 2


def test_a_study_that_cannot_begin_fails_the_job_and_the_summary_says_so(job: Job) -> None:
    done = job.uses(config="nowhere.yaml", study="s.tuner.db")

    assert done.returncode == 2
    assert "nowhere.yaml" in done.stderr
    assert "exit code 2" in job.summary.read_text(encoding="utf-8")
    assert job.outputs["exit-code"] == "2"


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        ({"command": "rank"}, "command: "),
        ({"fail_if_slower": "5%"}, "fail-if-slower "),
        ({"command": "check", "service": "python3 w.py"}, "service: "),
        ({"options": "--cores 2 'a"}, "options: "),
    ],
    ids=["command", "fail-if-slower", "service", "options"],
)
def test_a_wrong_input_is_named_and_nothing_is_run(job: Job, inputs: dict[str, str], named: str) -> None:
    done = job.uses(**inputs)

    assert done.returncode == 2
    assert re.fullmatch(rf"::error title=tuner::{named}.*\n", done.stdout)
    assert list(job.folder.iterdir()) == []
    assert not job.summary.exists()


def test_what_an_input_says_is_never_a_command_of_the_script(job: Job) -> None:
    odd = "$(touch pwned)`touch pwned`; touch pwned"

    done = job.uses(config=odd, study=odd, before=odd, options=f"--cores '{odd}'", service=f"python3 '{odd}'")

    assert done.returncode == 2
    assert not (job.folder / "pwned").exists()
