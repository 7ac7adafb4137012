"""The command of a brake: real processes, and nothing left of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.processes.log_tail import KEPT_BYTES
from tuner.adapters.processes.repeated_command import AskedCommand, RepeatedCommand
from tuner.adapters.safety_limits import read_box
from tuner.core.domain.safety_limits import CommandResult
from tuner.core.errors import ConfigError

from ..holes import need_holes
from ..processes import is_running
from ..wording import wording

pytestmark = pytest.mark.integration
PATIENCE_S = 60.0


def awaited(asked: AskedCommand, wanted: Callable[[CommandResult], bool] = lambda _: True) -> CommandResult:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if (answer := asked.answer()) is not None and wanted(answer):
            return answer
        time.sleep(0.01)
    raise AssertionError("no such answer")


def command(script: str, every_s: float = 0.05, timeout_s: float = PATIENCE_S) -> RepeatedCommand:
    return RepeatedCommand(SystemClock(), ["sh", "-c", script], every_s, timeout_s)


def test_exit_code_0_lets_it_continue_and_anything_else_is_reported_with_the_last_line() -> None:
    with command("echo fine").asking({}) as asked:
        assert awaited(asked).refusal is None
    with command("echo first; echo 'queue  too deep' >&2; echo; exit 3").asking({}) as asked:
        assert awaited(asked).refusal == wording("launch.ended-with-exit-code", code=3) + ": queue too deep"
    with command("kill -9 $$").asking({}) as asked:
        assert awaited(asked).refusal == "sh " + wording("launch.killed-by-signal")


def test_it_is_run_again_and_again(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with command(f"test ! -e {flag}").asking({}) as asked:
        assert awaited(asked).refusal is None
        flag.touch()
        assert awaited(asked, lambda answer: answer.refusal is not None).refusal == wording(
            "launch.ended-with-exit-code", code=1
        )
        flag.unlink()
        assert awaited(asked, lambda answer: answer.refusal is None)


def test_it_is_reported_what_runs() -> None:
    with command('echo "$TUNER_LAYOUT"; exit 1').asking({"layout": "4x2"}) as asked:
        assert awaited(asked).refusal == wording("launch.ended-with-exit-code", code=1) + ": 4x2"


def is_gone(pid_file: Path) -> bool:
    return not is_running(int(pid_file.read_text()))


def test_one_that_does_not_end_is_killed_with_what_it_started_and_has_said_no(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"sleep 1000 & echo $! > {child}.new; mv {child}.new {child}; wait"
    with command(script, timeout_s=2.0).asking({}) as asked:
        answer = awaited(asked)

    assert answer.refusal == wording("launch.did-not-end-within")
    deadline = time.monotonic() + PATIENCE_S
    while not is_gone(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_gone(child)


def test_one_that_prints_without_end_takes_a_bounded_part_of_the_disk_and_its_last_line_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_holes(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ends = tmp_path / "ends"
    block = tmp_path / "block"
    block.write_bytes(b"the same line again and again\n" * 40_000)
    script = f"while [ ! -e {ends} ]; do cat {block}; done; echo too deep; exit 1"
    deadline = time.monotonic() + PATIENCE_S
    with command(script, every_s=PATIENCE_S * 10).asking({}) as asked:
        output = asked._output.fileno()
        while os.fstat(output).st_size < 6 * KEPT_BYTES:
            assert time.monotonic() < deadline, "it did not print so much"
            assert asked.answer() is None
            time.sleep(0.001)
        ends.touch()
        said = awaited(asked).refusal
        asked.answer()  # looked after once more, now that nobody writes
        used_bytes = os.fstat(output).st_blocks * 512

    assert said == wording("launch.ended-with-exit-code", code=1) + ": too deep"
    assert used_bytes < 4 * KEPT_BYTES


def test_one_that_runs_when_the_launch_ends_is_killed_with_what_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"sleep 1000 & echo $! > {child}.new; mv {child}.new {child}; wait"
    deadline = time.monotonic() + PATIENCE_S
    with command(script).asking({}) as asked:
        while not child.exists() and time.monotonic() < deadline:
            assert asked.answer() is None
            time.sleep(0.01)

    while not is_gone(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_gone(child)


def test_a_command_that_is_not_there_is_reported_before_anything_runs() -> None:
    with pytest.raises(ConfigError) as caught:
        RepeatedCommand(SystemClock(), ["no-such-thing"], 1.0, 1.0)

    assert caught.value.problem == wording("brake.command-missing")


def test_one_that_cannot_be_run_has_said_no(tmp_path: Path) -> None:
    program = tmp_path / "odd"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    with RepeatedCommand(SystemClock(), [str(program)], 1.0, 1.0).asking({}) as asked:
        assert awaited(asked).refusal == wording("launch.program-cannot-be-run", program=program)


def test_the_box_tells_its_load_and_memory() -> None:
    box = read_box(Path("/proc"))

    assert box.load1 >= 0
    assert 0 < box.memory_used_bytes < box.memory_bytes
    assert box.memory_bytes == pytest.approx(
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), rel=0.2
    )


def test_a_proc_without_them_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_box(tmp_path)
    (tmp_path / "loadavg").write_text("1.50 1.0 1.0 1/2 3\n")
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\n")
    with pytest.raises(ConfigError, match="MemAvailable"):
        read_box(tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemAvailable:  400 kB\n")

    assert read_box(tmp_path).memory_used_bytes == 600 * 1024
