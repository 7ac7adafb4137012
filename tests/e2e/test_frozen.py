"""Behaviour that no rebuilding may change: stored settings, seeded decisions, old files, supervisord's text.

Each value stands in tests/golden/frozen/. `pytest --refreeze` writes what the code does now into them: only
for a change of behaviour that is meant, and that CHANGELOG.md names.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.supervisord.config import render_config
from tuner.bootstrap.stores import open_store
from tuner.core.domain.service import ServiceSpec

from ..rollouts import rolled_out
from ..services.test_numbers import NUMBERED
from .typed import Typed

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
DIGITS = 6  #: of floats: the last ones differ between processors
PROSE = {"note", "notes", "remarks", "sentence", "weakened_by"}  #: its words may get better
#: a study for each way to decide what is measured next
SIMULATED = {
    "race-strict": ["--simulate", "socorro-2014", "--cores", "8"],
    "race-calibrated": ["--simulate", "gil-bound", "--cores", "4", "--kind", "calibrated", "--seed", "3"],
    "race-limits": ["--simulate", "waiting-bound", "--cores", "4", "--max-memory", "400 MB"],
    "all": [
        "--simulate",
        "socorro-2014",
        "--layouts",
        "24x1,4x6,1x24",
        "--strategy",
        "all",
        "--repeats",
        "2",
    ],
    "budget": ["--simulate", "socorro-2014", "--cores", "2", "--budget", "3h"],
}


@pytest.fixture
def frozen(request: pytest.FixtureRequest) -> Callable[[str, Any], None]:
    """Compare a value with the one of that name in golden/frozen/."""

    def compare(name: str, value: Any) -> None:
        path = GOLDEN / "frozen" / f"{name}.json"
        now = json.dumps(rounded(value), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        if request.config.getoption("--refreeze"):
            path.write_text(now, encoding="utf-8")
        assert json.loads(now) == json.loads(path.read_text(encoding="utf-8"))

    return compare


def rounded(value: Any) -> Any:
    """*value* as JSON has it, without prose, floats to so many significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {str(name): rounded(inner) for name, inner in value.items() if name not in PROSE}
    return [rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("name", SIMULATED)
def test_seeded_studies_decide_the_same(
    name: str, tmp_path: Path, frozen: Callable[[str, Any], None]
) -> None:
    typed, words = Typed(tmp_path), list(SIMULATED[name])
    words[1] = str(ROOT / "configs" / "profiles" / f"{words[1]}.yaml")

    done = typed("grid", *words, "--study", "s.tuner.db")

    with closing(open_store(tmp_path / "s.tuner.db", read_only=True)) as store:
        launches = [f"{one.block}.{one.position} {one.layout}" for _, one in store.launches()]
        windows = [
            " ".join([str(one.layout), str(one.n_done), *(void.slug for void in one.void)])
            for one in store.windows()
        ]
        facts = dataclasses.asdict(store.study())
    assert done.returncode in (0, 5), done.stderr
    kept = {
        field: facts[field] for field in ("strategy", "kind", "seed", "window_s", "min_window_s", "limits")
    }
    frozen(
        f"study-{name}", {"exit": done.returncode, "study": kept, "launches": launches, "windows": windows}
    )


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("study_version_*.db")), ids=lambda file: file.stem)
def test_older_files_give_the_same_ranking(
    file: Path, tmp_path: Path, frozen: Callable[[str, Any], None]
) -> None:
    version = int(file.stem.rpartition("_")[2])
    shutil.copy(file, tmp_path / "s.tuner.db")

    done = Typed(tmp_path)("rank", "s.tuner.db", "--json")

    facts = json.loads(done.stdout)
    assert facts["study"].pop("schema_version") == version
    # files from version 3 on hold the same windows
    frozen(f"rank-version-{min(version, 3)}", {"exit": done.returncode, "json": facts})


def test_commands_come_to_the_same_rollouts(frozen: Callable[[str, Any], None]) -> None:
    found = {}
    for command, layout in NUMBERED:
        variant = layout.partition("@")[2]
        rollout = rolled_out(command, layout, variants=[variant] if variant else None)
        found[f"{command} as {layout}"] = {**dataclasses.asdict(rollout), "layout": str(rollout.layout)}

    frozen("rollouts", found)


def test_supervisord_gets_the_same_text(frozen: Callable[[str, Any], None]) -> None:
    service = ServiceSpec("name", ("command", "{threads}"), stop_signal="INT", stop_wait_s=1.2)
    texts = {
        f"{n} programs{', as root' if as_root else ''}": render_config(service, n, minfds=99, as_root=as_root)
        for n in (1, 24)
        for as_root in (False, True)
    }

    frozen("supervisord", texts)
