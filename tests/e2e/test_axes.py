"""Axes, for real: of a script, and of the built-in worker that another interpreter runs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ..wording import wording
from .sleeping_worker import sleeping_worker
from .typed import Typed

pytestmark = pytest.mark.integration
STUDY = (
    "study: {strategy: all, layouts: [%s], window: 2s, warmup: 1s, repeats: 1, warm_cache: no,"
    " foreign_limit: 1000, memory_pressure_limit: 1}\n"
)


def test_what_an_axis_alone_changes_is_measured_and_reported(typed: Typed) -> None:
    """Each item of a thread takes 20 ms, or 200: so much that no neighbour makes them alike."""
    (typed.folder / "worker.py").write_text(sleeping_worker("float(os.environ['NAP'])"))
    (typed.folder / "s.yaml").write_text(
        "service:\n  kind: script\n  name: jobs\n  command: [nobody, worker.py]\n  axes:\n"
        f"    python: {{this: {{replace: {{nobody: {sys.executable}}}}}}}\n"
        "    nap: {short: {environment: {NAP: '0.02'}}, long: {environment: {NAP: '0.2'}}}\n"
        + STUDY
        % "1x1@this+short, 1x1@this+long, 1x2@this+short, 1x2@this+long"
    )

    done = typed("grid", "s.yaml", "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (effect,) = found["axes"]
    assert (effect["axis"], effect["value"], effect["beside"], effect["n_pairs"]) == (
        "nap", "long", "short", 2,
    )  # fmt: skip
    assert 0 < effect["ratio"]["mean"] < 0.5
    assert found["study"]["provenance"]["worker_python"].endswith(".".join(map(str, sys.version_info[:3])))
    assert wording("compare.what-axis-alone-changes") in typed("rank", "jobs.tuner.db").stdout
    assert "--resume" not in typed("grid", "--resume", "jobs.tuner.db").stderr  # it is over


def test_another_interpreter_runs_the_built_in_worker_without_having_it(tuner) -> None:
    """With -S it does not see where tuner is installed."""
    (tuner.folder / "s.yaml").write_text(
        "service:\n  kind: crash-processor\n  axes:\n"
        f"    python: {{own: {{}}, other: {{interpreter: [{sys.executable}, -S]}}}}\n"
        "    pool: {threaded: {options: {producer_consumer_class: threaded}}}\n"
        + STUDY
        % "1x2@own+threaded, 1x2@other+threaded"
    )

    done = tuner("grid", "s.yaml", "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(row["throughput_per_10min"]["mean"] > 0 for row in found["layouts"])
    assert [one["axis"] for one in found["axes"]] == ["python"]
    assert list(Path(os.environ["TMPDIR"]).glob("tuner-*")) == []


def test_an_interpreter_that_is_not_here_is_reported_before_anything_starts(typed: Typed) -> None:
    (typed.folder / "s.yaml").write_text(
        "service: {kind: crash-processor, axes: {python: {own: {}, none: {interpreter: ./python3.99}}}}\n"
    )

    done = typed("grid", "s.yaml")

    assert done.returncode == 2
    assert wording("grid.python-of-axis-not-here") in done.stderr
    assert not (typed.folder / "crash-processor.tuner.db").exists()


def test_what_stands_before_the_command_hides_no_interpreter_that_an_axis_names(typed: Typed) -> None:
    """env with an option is any program to us, as taskset and numactl are."""
    (typed.folder / "worker.py").write_text(sleeping_worker("0.02"))
    (typed.folder / "s.yaml").write_text(
        "service:\n  kind: script\n  name: jobs\n  command: [python3, worker.py]\n  axes:\n"
        f"    python: {{this: {{interpreter: {sys.executable}}}}}\n"
        "    cores: {all: {}, pinned: {prepend: [env, -u, NOBODY]}}\n"
        + STUDY
        % "1x1@this+all, 1x1@this+pinned"
    )

    done = typed("grid", "s.yaml", "--json")

    assert done.returncode == 0, done.stderr
    provenance = json.loads(done.stdout)["study"]["provenance"]
    assert provenance["worker_python"].endswith(".".join(map(str, sys.version_info[:3])))
    assert provenance["worker_gil"] in ("on", "off")
