"""Asks what is known of faults in every locked package, and says plainly where the answer cannot be had.

.venv-audit/bin/python requirements/audit.py                     # all locks, by PyPI's advisories
.venv-audit/bin/python requirements/audit.py --service osv run   # one lock, by OSV

Exit codes: 0 every package was looked up and nothing is known; 1 something is known; 3 some or all could not
be looked up. pip-audit itself ends with 0 when the index has no advisories at all, as mirrors have none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLEAN, KNOWN, UNKNOWN = 0, 1, 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said of one lock."""

    n_asked: int
    known: tuple[str, ...]  #: a line for each fault
    unanswered: tuple[str, ...]  #: packages that nothing could be said of, with the reason


def answer_of(report: str) -> Answer:
    """Read what pip-audit prints as JSON."""
    packages = json.loads(report)["dependencies"]
    known = tuple(
        f"{one['name']} {one['version']}: {fault['id']}, mended in "
        + (", ".join(fault["fix_versions"]) or "none yet")
        for one in packages
        for fault in one.get("vulns", ())
    )
    unanswered = tuple(f"{one['name']}: {one['skip_reason']}" for one in packages if "skip_reason" in one)
    return Answer(len(packages), known, unanswered)


def ask(lock: str, service: str) -> Answer | str:
    """Ask of one lock; a sentence where nothing was answered at all."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
    command += ["--vulnerability-service", service, "--disable-pip", "--require-hashes"]
    done = subprocess.run(
        [*command, "-r", str(HERE / f"{lock}.txt")], capture_output=True, text=True, check=False
    )
    try:
        return answer_of(done.stdout)
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
