"""TAB in real shells, at a terminal: bash is everywhere, zsh and fish where they are installed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tuner.cli import run

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "bench" / "studies" / "gunicorn-2-cores-busy.tuner.db"
PATIENCE_S = 60.0
READY = "ready>"
START = {
    "bash": (["bash", "--noprofile", "-i"], ".bashrc", f"PS1='{READY} '"),
    "zsh": (["zsh", "-i"], ".zshrc", f"PROMPT='{READY} '\nzstyle ':completion:*' menu select"),
    "fish": (
        ["fish", "-i"],
        ".config/fish/config.fish",
        f"function fish_prompt; echo -n '{READY} '; end\nset fish_greeting",
    ),
}


class Shell:
    """A shell at the other end of a terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait_for(self, text: str) -> None:
        """Read on until *text* has come since the last wait."""
        deadline_s = time.monotonic() + PATIENCE_S
        while text not in self._seen:
            assert time.monotonic() < deadline_s, f"no {text!r} in {self._seen!r}"
            if select.select([self._terminal], [], [], 0.2)[0]:
                heard = os.read(self._terminal, 65536).decode("utf-8", "replace")
                self._answer(heard)
                self._seen += heard
        self._seen = self._seen.partition(text)[2]

    def _answer(self, heard: str) -> None:
        """What a terminal says when it is asked who it is: fish waits for that."""
        if "\x1b[c" in heard or "\x1b[0c" in heard:
            os.write(self._terminal, b"\x1b[?62;22c")
        if "\x1b[6n" in heard:
            os.write(self._terminal, b"\x1b[1;1R")


@contextmanager
def running(command: list[str], home: Path) -> Iterator[Shell]:
    bin_ = home / "bin"
    bin_.mkdir()
    program = bin_ / "tuner"
    program.write_text(f"#!{sys.executable}\nfrom tuner.cli import main\nmain()\n")
    program.chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "ZDOTDIR"))},
        "HOME": str(home),
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm",
    }
    pid, terminal = pty.fork()
    if pid == 0:
        with suppress(OSError):
            os.chdir(home)
            os.execvpe(command[0], command, environment)
        os._exit(127)
    try:
        yield Shell(terminal)
    finally:
        os.kill(pid, signal.SIGHUP)
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


@pytest.mark.parametrize("name", START)
def test_tab_completes_a_command_an_option_and_the_layout_of_a_study(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, start, lines = START[name]
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} here")
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / start).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / start).write_text(f"{lines}\n")
    assert run(["--install-completion", name]) == 0
    shutil.copy(STUDY, tmp_path / "s.tuner.db")

    with running(command, tmp_path) as shell:
        shell.wait_for(READY)
        shell.type("tuner expl\t")
        shell.wait_for("explain")
        shell.type("s.tun\t")  # a file is the shell's to complete
        shell.wait_for("er.db")
        shell.type("\x15tuner rank s.tuner.db --curr\t")
        shell.wait_for("ent")
        shell.type("\x15tuner check s.tuner.db --current 4x4\t")
        shell.wait_for("@gthread")
