"""A study on a real terminal, and tuner watch beside it: what is seen, and what a kill leaves."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..overviews import recorded
from ..terminal_emulator import Emulator
from ..wording import wording
from .sleeping_worker import sleeping_worker
from .typed import Typed

pytestmark = pytest.mark.integration
PATIENCE_S = 120.0
PROGRAM = [sys.executable, "-c", "from tuner.cli import main; main()"]


def script(folder: Path, window: str, repeats: int = 2) -> None:
    (folder / "worker.py").write_text(sleeping_worker("0.002"))
    (folder / "s.yaml").write_text(
        "service:\n  kind: script\n  name: sleeper\n"
        f"  command: [{sys.executable}, {folder / 'worker.py'}]\n"
        f"study: {{strategy: all, layouts: [1x1, 2x2], window: {window}, warmup: 1s, repeats: {repeats},"
        " warm_cache: no, foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )


class OnTerminal:
    """`tuner ...` on a terminal of 80 x 24, and what is seen on it by now."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.modes = termios.tcgetattr(self.slave)
        self.written = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end within a character
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ON_A_TERMINAL, *arguments],
            cwd=folder,
            env={**os.environ, "TERM": "xterm", "PYTHONUTF8": "1", **environment},
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
        )

    def until(self, is_seen: Callable[[str], bool]) -> str:
        """The screen, once it is so."""
        ends_s = time.monotonic() + PATIENCE_S
        while not is_seen(self.screen()):
            assert time.monotonic() < ends_s, f"never seen, only:\n{self.screen()}"
            self.read()
        return self.screen()

    def ended(self) -> int:
        ends_s = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < ends_s, f"does not end:\n{self.screen()}"
            self.read()
        while self.read():
            pass
        return self.process.wait()

    def read(self) -> bool:
        if not select.select([self.master], [], [], 0.2)[0]:
            return False
        self.written += self.decoder.decode(os.read(self.master, 65536))
        return True

    def screen(self) -> str:
        emulator = Emulator()
        emulator.feed(self.written)
        assert emulator.unknown == []
        return emulator.text()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(PATIENCE_S)
        os.close(self.master)
        os.close(self.slave)


#: takes the terminal for its own, as a shell would have given it
_ON_A_TERMINAL = (
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from tuner.cli import main; main()"
)


@contextmanager
def on_terminal(folder: Path, *arguments: str, **environment: str) -> Iterator[OnTerminal]:
    found = OnTerminal(folder, *arguments, **environment)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def measuring(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A study without a terminal that has begun to measure."""
    process = subprocess.Popen(
        [*PROGRAM, "grid", "s.yaml"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        ends_s = time.monotonic() + PATIENCE_S
        while not (folder / "sleeper.tuner.db-live").exists():
            assert process.poll() is None
            assert time.monotonic() < ends_s
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def test_a_study_on_a_terminal_shows_its_view_and_leaves_its_lines_and_the_ranking(tuner) -> None:
    script(tuner.folder, "3s")
    with on_terminal(tuner.folder, "grid", "s.yaml") as seen:
        during = seen.until(lambda screen: "now    " in screen and "▶ " in screen)
        code, after = seen.ended(), seen.screen()

        assert code == 0, after
        assert termios.tcgetattr(seen.slave) == seen.modes
    assert "sleeper on " in during
    assert "full grid" in during
    assert "now    " not in after
    assert after.count(" items/10 min, load ") == 4  # a line per window
    assert "Kept in sleeper.tuner.db" in after
    assert sorted(path.name for path in tuner.folder.glob("sleeper*")) == ["sleeper.tuner.db"]


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(tuner) -> None:
    script(tuner.folder, "1s", 1)
    with on_terminal(tuner.folder, "grid", "s.yaml", TERM="dumb") as seen:
        assert seen.ended() == 0

    assert "\x1b" not in seen.written
    assert seen.written.count(" items/10 min, load ") == 2


def test_a_study_at_rest_has_no_colours_where_the_terminal_has_none(tuner) -> None:
    study = recorded("crash-processor-2-cores-busy.tuner.db", tuner.folder)
    with on_terminal(tuner.folder, "watch", "--once", study.name, TERM="dumb") as seen:
        assert seen.ended() == 0

    assert "\x1b" not in seen.written
    assert "items/10 min" in seen.written


def test_watch_shows_what_runs_in_another_process_and_q_leaves_it(tuner, typed: Typed) -> None:
    script(tuner.folder, "20s")
    with measuring(tuner.folder), on_terminal(tuner.folder, "watch", "sleeper.tuner.db") as seen:
        seen.until(lambda screen: "measuring " in screen and "active" in screen)
        done = typed("watch", "sleeper.tuner.db", "--json")
        os.write(seen.master, b"q")
        assert seen.ended() == 0, seen.screen()

        assert termios.tcgetattr(seen.slave) == seen.modes
    facts = json.loads(done.stdout)
    assert facts["stage"] == "running"
    assert facts["live"]["phase"] in ("starting", "warming-up", "window", "between")
    assert facts["live"]["layout"] in ("1x1", "2x2")
    assert facts["live"]["remaining_s"] > 0


def test_after_a_kill_watch_says_how_to_continue_and_nothing_of_what_ran(tuner, typed: Typed) -> None:
    script(tuner.folder, "600s")
    with measuring(tuner.folder) as process:
        with on_terminal(tuner.folder, "watch", "sleeper.tuner.db") as seen:
            seen.until(lambda screen: "now    " in screen)
            process.kill()
            process.wait(PATIENCE_S)
            assert seen.ended() == 0  # with the study

        assert (tuner.folder / "sleeper.tuner.db-live").exists()
        assert wording("watch.continue-with") in seen.screen()
    done = typed("watch", "sleeper.tuner.db")
    assert done.returncode == 0, done.stderr
    assert "now    " not in done.stdout
    assert wording("watch.nobody-measures") in done.stdout
    facts = json.loads(typed("watch", "sleeper.tuner.db", "--json").stdout)
    assert (facts["stage"], facts["live"]) == ("at-rest", None)
    assert facts["go_on"] == "tuner grid --resume sleeper.tuner.db"


def test_a_simulated_study_is_shown_as_one_and_drawn_into_a_picture(typed: Typed) -> None:
    profile = Path(__file__).resolve().parents[2] / "configs" / "profiles" / "waiting-bound.yaml"
    done = typed(
        "grid", "--cores", "2", "--strategy", "all", "--repeats", "2", "--simulate", profile,
        "--study", "s.tuner.db",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    shown = typed("watch", "s.tuner.db")
    drawn = typed("watch", "s.tuner.db", "--svg", "s.svg", "--json")

    assert shown.returncode == drawn.returncode == 0, shown.stderr + drawn.stderr
    assert shown.stdout.startswith(wording("simulate.no-service-ran-model", profile="waiting-bound", cores=2))
    assert "\x1b" not in shown.stdout
    assert json.loads(drawn.stdout)["stage"] == "over"
    picture = (typed.folder / "s.svg").read_text()
    assert picture.startswith("<svg")
    assert "measured" in picture
    assert "url(" not in picture.replace("url(#", "")  # nothing from elsewhere


def test_what_cannot_be_watched_is_reported_in_a_line(typed: Typed) -> None:
    (typed.folder / "x.db").write_text("no study")

    for arguments, problem in (
        (("watch", "no.tuner.db"), "there is no study file no.tuner.db"),
        (("watch", "x.db"), "x.db is not a study file of tuner"),
        (("watch", "x.db", "--every", "1"), "--every: '1' has no unit"),
        (("watch", "x.db", "--every", "10ms"), "--every 10ms: should be from 500ms to 1h"),
    ):
        done = typed(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(f"Error: {problem}"), done.stderr
