"""What was typed to make results of the lab, told by the results."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.adapters.lab.results import Results

USUAL_REPEATS, QUICK_REPEATS, USUAL_SEED = 3, 1, 1
#: in the provenance of results: the Python that was named first; before a version, one of several
PROGRAM, PYTHON = "worker_program", "python "


def lab_command(results: Results) -> str:
    """The command that makes such results anew."""
    words = ["tuner", "lab", results.name]
    if results.quick:
        words.append("--quick")
    if results.repeats != (QUICK_REPEATS if results.quick else USUAL_REPEATS):
        words += ["--repeats", str(results.repeats)]
    if results.seed != USUAL_SEED:
        words += ["--seed", str(results.seed)]
    first = results.provenance.get(PROGRAM)
    if first is not None:  # else those that are compared were found
        several = [one for name, one in results.provenance.items() if name.startswith(PYTHON)]
        words += [word for one in dict.fromkeys([first, *several]) for word in ("--python", one)]
    return shlex.join(words)
