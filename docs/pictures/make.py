"""Makes the README's pictures: the live view and the report of a study, as tuner shows them.

    python docs/pictures/make.py             # of a simulated study, the same every time but for the clock
    python docs/pictures/make.py STUDY       # of any study's file, as it stands

live.svg is what `tuner watch` saves while the study is under way; report.png is `tuner report` in Chromium,
of the same study with its answer.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.adapters.terminal.live_file import live_path, render_live
from tuner.core.domain.layout import parse_layout
from tuner.core.domain.live import Live

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROFILE = ROOT / "configs" / "profiles" / "socorro-2014.yaml"
#: a race that finds its answer
SIMULATED = ["--cores", "24", "--simulate", str(PROFILE)]
_SEEN_AFTER = 110  #: windows: some layouts are out, some may still be best
_TAKEN = re.compile(
    r"simulated \S+ (?P<layout>\S+) block (?P<block>\d+): (?P<items>[\d ]+) items/10 min,"
    r" load (?P<load>[\d.]+), active (?P<active>[\d.]+) \(window (?P<taken>\d+)"
)
_WIDTH, _HEIGHT = 1000, 1216  #: of the picture of the report, px
_SCALE = 1.5  #: for screens with finer ones


def main() -> None:
    """Make them all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if len(sys.argv) > 1:
            study = Path(sys.argv[1]).resolve()
            _watch(study)
        else:
            study = folder / "study.tuner.db"
            with _under_way(study):
                _watch(study)
        _run("tuner", "report", study.name, "-o", folder / "report.html", folder=study.parent)
        _picture(folder)


def _watch(study: Path) -> None:
    # its name alone, in its folder: the view says how to go on, and no reader's folders are ours
    _run("tuner", "watch", study.name, "--once", "--svg", HERE / "live.svg", folder=study.parent)


@contextmanager
def _under_way(study: Path) -> Iterator[None]:
    """A simulated study that stands still within the block, its file held; then it goes on to its end."""
    command = ["tuner", "grid", *SIMULATED, "--study", str(study)]
    with (
        tempfile.TemporaryFile("w+") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True) as grid,
    ):
        assert grid.stderr is not None
        try:
            taken: dict[str, re.Match[str]] = {}
            for line in grid.stderr:
                if found := _TAKEN.match(line):
                    taken[found["layout"]] = found
                    if int(found["taken"]) >= _SEEN_AFTER:
                        break
            grid.send_signal(signal.SIGSTOP)
            live_path(study).write_text(_now(taken, _left_s(study)), encoding="utf-8")
            yield
            live_path(study).unlink()
            grid.send_signal(signal.SIGCONT)
            for _ in grid.stderr:
                pass
            if grid.wait() != 0:
                raise SystemExit(f"{' '.join(command)} ended with {grid.returncode}")
        finally:
            grid.kill()


def _left_s(study: Path) -> float | None:
    """What the race expects at that moment."""
    found = json.loads(_run("tuner", "watch", study, "--json"))["rest_s"]
    return None if found is None else float(found)


def _now(taken: dict[str, re.Match[str]], left_s: float | None) -> str:
    """What runs now: a window, nearly halfway, of the layout that was measured before the last.

    A simulated study does not say it of itself, as its windows take no time.
    """
    *_, last, then = sorted(taken.values(), key=lambda one: int(one["taken"]))
    return render_live(
        Live(
            at_wall_s=time.time(),
            phase="window",
            layout=parse_layout(last["layout"]),
            block=int(then["block"]),
            elapsed_s=36.0,
            window_s=80.0,
            items_per_s=int(last["items"].replace(" ", "")) / 600,
            load1=float(last["load"]),
            n_active=round(float(last["active"])),
            n_taken=int(then["taken"]),
            n_planned=None,
            remaining_s=left_s,
        )
    )


def _picture(folder: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("Chromium is not on the PATH: apt-get install chromium")
    options = ["--headless=new", "--no-sandbox", "--hide-scrollbars", f"--user-data-dir={folder / 'browser'}"]
    options.append("--blink-settings=preferredColorScheme=1")  # light
    options.append(f"--force-device-scale-factor={_SCALE}")
    _run(
        chromium,
        *options,
        f"--window-size={_WIDTH},{_HEIGHT}",
        f"--screenshot={HERE / 'report.png'}",
        f"file://{folder / 'report.html'}",
    )


def _run(*words: str | Path, folder: Path | None = None) -> str:
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
