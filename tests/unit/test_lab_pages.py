"""The pages of docs/lab say what the runs kept in bench/lab gave."""

from __future__ import annotations

import re
import shutil
from itertools import zip_longest
from pathlib import Path

import pytest

from ..e2e.typed import Typed

ROOT = Path(__file__).resolve().parents[2]
RUNS = sorted((ROOT / "bench" / "lab").glob("*.lab.json"))
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")


def is_alike(one: str, other: str) -> bool:
    """The same words; numbers may differ by what another version of SciPy makes of a fit."""
    if NUMBER.sub("0", one) != NUMBER.sub("0", other):
        return False
    pairs = zip(map(float, NUMBER.findall(one)), map(float, NUMBER.findall(other)), strict=True)
    return all(abs(a - b) <= 0.02 * abs(a) + 0.11 for a, b in pairs)


@pytest.mark.parametrize("runs", RUNS, ids=lambda runs: str(runs.name.split(".")[0]))
def test_a_page_says_what_its_runs_gave(tmp_path: Path, runs: Path) -> None:
    name = runs.name.removesuffix(".lab.json")
    shutil.copy(runs, tmp_path)

    done = Typed(tmp_path)("lab", name, "--results", runs.name, "--page", f"{name}.md")

    assert done.returncode == 0, done.stderr
    for file in (f"{name}.md", f"{name}.svg", f"{name}.csv"):
        made, kept = (
            re.sub(r" +|-{3,}", " ", (folder / file).read_text(encoding="utf-8")).splitlines()
            for folder in (tmp_path, ROOT / "docs" / "lab")
        )
        again = (
            f"{file} is not what its runs give: tuner lab {name} --results {runs} --page docs/lab/{name}.md"
        )
        for one, other in zip_longest(made, kept, fillvalue=""):
            assert is_alike(one, other), f"{again}\n{one}\n{other}"


def test_all_experiments_but_socorro_have_their_runs() -> None:
    assert [runs.name.split(".")[0] for runs in RUNS] == ["gnocchi", "gornir", "nornir", "pi-pools"]
    assert (ROOT / "docs" / "lab" / "socorro.md").exists()
