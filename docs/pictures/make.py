"""Makes the README's pictures: the live view and the report of a study, as tuner shows them.

    python docs/pictures/make.py             # of a simulated study, the same every time
    python docs/pictures/make.py STUDY       # of any study's file

live.svg is what `tuner watch` saves, report.png is `tuner report` in Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROFILE = ROOT / "configs" / "profiles" / "socorro-2014.yaml"
#: a race that its budget ends: some layouts are out, some may still be best
SIMULATED = ["--cores", "24", "--budget", "6h", "--simulate", str(PROFILE)]
_WEAKER = 5  #: the budget ended first, as it was to
_WIDTH, _HEIGHT = 1200, 1345  #: of the pictures of the report


def main() -> None:
    """Make them all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else _simulated(folder)
        # its name alone, in its folder: the view says how to go on, and no reader's folders are ours
        _run("tuner", "watch", study.name, "--once", "--svg", HERE / "live.svg", folder=study.parent)
        _run("tuner", "report", study.name, "-o", folder / "report.html", folder=study.parent)
        _picture(folder)


def _simulated(folder: Path) -> Path:
    file = folder / "study.tuner.db"
    _run("tuner", "grid", *SIMULATED, "--study", file, codes=(0, _WEAKER))
    return file


def _picture(folder: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("Chromium is not on the PATH: apt-get install chromium")
    options = ["--headless=new", "--no-sandbox", "--hide-scrollbars", f"--user-data-dir={folder / 'browser'}"]
    options.append("--blink-settings=preferredColorScheme=1")  # light
    _run(
        chromium,
        *options,
        f"--window-size={_WIDTH},{_HEIGHT}",
        f"--screenshot={HERE / 'report.png'}",
        f"file://{folder / 'report.html'}",
    )


def _run(*words: str | Path, codes: tuple[int, ...] = (0,), folder: Path | None = None) -> None:
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr}")


if __name__ == "__main__":
    main()
