"""Asks what is known of faults in every locked package, and says plainly where the answer cannot be had.

.venv-audit/bin/python requirements/audit.py                     # all locks, by PyPI's advisories
.venv-audit/bin/python requirements/audit.py --service osv run   # one lock, by OSV

Exit codes: 0 every package was looked up and nothing is known; 1 something is known; 3 some or all could not
be looked up. pip-audit itself ends with 0 when the index has no advisories at all, as mirrors have none.
It also leaves out, without a word, what a marker keeps off its own Python: so it is asked without markers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from locked import HERE, Locked, normalised, read_lock

CLEAN, KNOWN, UNKNOWN = 0, 1, 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said of one lock."""

    n_asked: int
    known: tuple[str, ...]  #: a line for each fault
    unanswered: tuple[str, ...]  #: packages that nothing could be said of, with the reason


def answer_of(report: str, asked: Sequence[Locked]) -> Answer:
    """Read what pip-audit prints as JSON; of what was asked and is not in it nothing is known."""
    packages = json.loads(report)["dependencies"]
    known = tuple(
        f"{one['name']} {one['version']}: {fault['id']}, mended in "
        + (", ".join(fault["fix_versions"]) or "none yet")
        for one in packages
        for fault in one.get("vulns", ())
    )
    unanswered = [f"{one['name']}: {one['skip_reason']}" for one in packages if "skip_reason" in one]
    skipped = {normalised(one["name"]) for one in packages if "skip_reason" in one}
    answered = {(normalised(one["name"]), one["version"]) for one in packages if "version" in one}
    unanswered += [
        f"{one.name} {one.version}: pip-audit left it out"
        for one in asked
        if one.name not in skipped and (one.name, one.version) not in answered
    ]
    return Answer(len(asked), known, tuple(unanswered))


def without_markers(packages: Sequence[Locked]) -> list[str]:
    """The text of requirement files that name every package wherever they are read, one version each."""
    files: list[dict[str, str]] = []
    for package in packages:
        file = next((file for file in files if package.name not in file), None)
        if file is None:
            files.append(file := {})
        hashes = " ".join(f"--hash=sha256:{sha256}" for sha256 in package.sha256)
        file[package.name] = f"{package.name}=={package.version} {hashes}\n"
    return ["".join(file.values()) for file in files]


def ask(lock: str, service: str) -> Answer | str:
    """Ask of one lock; a sentence where nothing was answered at all."""
    packages = read_lock(HERE / f"{lock}.txt")
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
    command += ["--vulnerability-service", service, "--disable-pip", "--require-hashes"]
    with tempfile.TemporaryDirectory(prefix="tuner-audit-") as folder:
        for number, text in enumerate(without_markers(packages), start=1):
            path = Path(folder) / f"{lock}-{number}.txt"
            path.write_text(text, encoding="utf-8")
            command += ["-r", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return answer_of(done.stdout, packages)
    except (json.JSONDecodeError, KeyError):
        said = done.stderr.strip().splitlines() or [
            f"pip-audit ended with {done.returncode} and said nothing"
        ]
        return said[-1]


def told(lock: str, answer: Answer | str) -> tuple[int, str]:
    """The exit code for one lock, and what people read."""
    if isinstance(answer, str):
        return UNKNOWN, f"{lock}.txt: the advisories cannot be had, nothing was looked up: {answer}"
    lines, code = [], CLEAN
    if answer.unanswered or not answer.n_asked:
        code = UNKNOWN
        lines.append(
            f"{lock}.txt: no advisories to be had for {len(answer.unanswered)} of {answer.n_asked} packages;"
            f" {(answer.unanswered or ('the lock is empty',))[0]}"
        )
    if answer.known:
        code = KNOWN
        lines += [f"{lock}.txt: {line}" for line in answer.known]
    if code == CLEAN:
        lines.append(f"{lock}.txt: {answer.n_asked} packages looked up, nothing known")
    return code, "\n".join(lines)


def main() -> int:
    """Ask of each lock, and tell."""
    locks = sorted(path.stem for path in HERE.glob("*.txt"))
    parser = argparse.ArgumentParser(description="Known faults in the locked packages.")
    parser.add_argument("locks", nargs="*", metavar="LOCK", help=f"of {', '.join(locks)}; all when left out")
    parser.add_argument("--service", default="pypi", choices=("pypi", "osv"), help="who is asked")
    asked = parser.parse_args()
    if strange := sorted(set(asked.locks) - set(locks)):
        parser.error(f"no such lock: {', '.join(strange)}")
    codes = []
    for lock in asked.locks or locks:
        code, text = told(lock, ask(lock, asked.service))
        codes.append(code)
        print(text, flush=True)
    return KNOWN if KNOWN in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
