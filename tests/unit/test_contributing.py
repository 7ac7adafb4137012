"""What contributors are offered: hooks, the public CI, the table of what runs where."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]


def document(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_hooks_run_what_make_check_runs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.findall(r"^check: lint.*\n((?:\t.*\n)+)|^lint: .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    checks = {
        line.replace("$(BIN)/", ".venv/bin/") for pair in recipe for line in "".join(pair).split("\t") if line
    }
    hooks = [hook["entry"] for repo in document(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]

    assert len(hooks) == len(checks) == 4
    assert all(any(hook.startswith(check.strip()) for hook in hooks) for check in checks)


def test_the_public_ci_runs_the_script_that_any_machine_can_run() -> None:
    (job,) = document(".github/workflows/ci.yml")["jobs"].values()

    assert job["steps"][-1]["run"].endswith("bash .ci/run")


def test_the_table_of_what_runs_where_has_each_mark() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    marks = {line.partition(":")[0] for line in settings["tool"]["pytest"]["ini_options"]["markers"]}
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

    assert {mark for mark in marks if f"`{mark}`" not in page} == {
        "integration"
    }  # it does not decide what runs


def test_each_form_for_an_issue_has_a_name_and_fields() -> None:
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
    found = {path.stem: document(str(path.relative_to(ROOT))) for path in forms}

    assert set(found) == {"bug", "idea"}
    assert all(form["name"] and form["description"] and form["body"] for form in found.values())
