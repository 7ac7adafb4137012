"""The commands that pages tell people to type, typed: blocks of ```console, a command behind each ``$``.

A block with a title is a file of that name. A comment before a block, which the site does not show, says why
it is not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROFILE = ROOT / "configs" / "profiles" / "socorro-2014.yaml"
PATIENCE_S = 900.0
_BLOCK = re.compile(
    r"(?P<before>[^\n]*)\n+^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_MEASURES = re.compile(r"tuner (grid|plan|aa|calibrate [\w-]+\.yaml|check) ")
_NOT_RUN = re.compile(r"<!-- not run by the test: .+ -->")


@dataclass(frozen=True)
class Block:
    """What stands between two fences of a page."""

    language: str
    title: str | None
    text: str
    is_run: bool

    @property
    def commands(self) -> list[str]:
        """What is typed; a line that ends with a backslash goes on in the next."""
        joined = self.text.replace("\\\n", " ")
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        is_run = _NOT_RUN.fullmatch(match["before"]) is None
        yield Block(match["language"], match["title"], match["text"], is_run)


def typed(page: str, folder: Path, *, simulated: bool) -> dict[str, str]:
    """Type every command of *page* in *folder*; what each printed."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
    }
    shown = {}
    for block in blocks(page):
        if block.title is not None:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        if block.language != "console" or not block.is_run:
            continue
        for command in block.commands:
            measures = _MEASURES.match(command)
            words = f"{command} --simulate {PROFILE}" if measures and simulated else command
            done = subprocess.run(
                ["bash", "-c", words],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            allowed = {0, 4, 5} if measures else {0}  # weaker than asked, or stale, is an answer too
            assert done.returncode in allowed, f"$ {words}\n{done.stdout}\n{done.stderr}"
            shown[command] = done.stdout
    return shown


@pytest.mark.integration
@pytest.mark.timeout(1800)
def test_the_tutorial_leads_from_a_worker_to_a_runbook(tmp_path: Path) -> None:
    shown = typed("tutorial.md", tmp_path, simulated=False)

    assert len(shown) == 11
    assert "tuner:ranking:" in shown["cat RUNBOOK.md"]
    assert (tmp_path / "worker.yaml").is_file()


@pytest.mark.integration
@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_night_on_the_staging_box_goes_as_its_page_says(tmp_path: Path) -> None:
    shown = typed("staging-night.md", tmp_path, simulated=True)

    assert sum(map(bool, shown.values())) >= 13
    assert "No answer yet" in shown["tuner rank night.tuner.db"]  # nine hours do not do on that box
    assert (tmp_path / "shop.yaml").is_file()
    assert (tmp_path / "night.csv").read_text().count("\n") > 20


@pytest.mark.parametrize("page", ["tutorial.md", "staging-night.md"])
def test_what_is_not_run_says_so_and_nothing_else_is_left_out(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = list(blocks(page))

    assert sum(block.language == "console" for block in found) == text.count("\n```console\n")
    assert sum(not block.is_run for block in found) == text.count("<!-- not run by the test")
    assert all(block.commands for block in found if block.language == "console")
