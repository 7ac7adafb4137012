"""A helper that answers line by line, and what becomes of one that hangs, dies or talks nonsense."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.celery import CeleryCounting
from tuner.adapters.probes.helper import Helper, HelperStart
from tuner.adapters.probes.polled import polling
from tuner.core.domain.window import Reading
from tuner.core.errors import ConfigError, MeasurementError

from ..processes import is_running
from ..raising import raises
from ..wording import key_of, start_of, wording

pytestmark = [pytest.mark.pythons, pytest.mark.integration]
LONG_S = 60.0

#: answers with the lines of *answers*, one after the other
_SAYS = """\
import json, os, sys, time
wanted = json.loads(sys.stdin.readline())
print(json.dumps({"ready": "yes", "others": wanted.get("others"), "pid": os.getpid()}), flush=True)
"""


@contextmanager
def helper(folder: Path, code: str, *, first: str = "", timeout_s: float = LONG_S) -> Iterator[Helper]:
    """One that runs *first*, says that it is ready, and runs *code*."""
    program = folder / "says.py"
    program.write_text(first + _SAYS + code)
    start = HelperStart(
        program,
        [sys.executable, "-S"],
        dict(os.environ),
        str(folder),
        hide=lambda text: text.replace("s3cret", "<hidden>"),
    )
    with closing(Helper(start, {"others": ["w9"]}, timeout_s)) as one:
        yield one


def error_of(ask: Callable[[], object]) -> str:
    with pytest.raises(MeasurementError) as caught:
        ask()
    return caught.value.problem


def test_each_line_gets_its_answer_from_one_and_the_same_process(tmp_path: Path) -> None:
    code = "for n, _ in enumerate(sys.stdin): print(json.dumps({'n': n, 'pid': os.getpid()}), flush=True)"
    with helper(tmp_path, code) as one:
        ready = one.start()
        answers = [one.ask() for _ in range(3)]
        pids = one.pids()

    assert ready["others"] == ["w9"]
    assert [answer["n"] for answer in answers] == [0, 1, 2]
    assert {answer["pid"] for answer in answers} == {ready["pid"]} == pids


def test_it_is_in_the_folder_that_it_was_started_for_and_its_end_is_quiet(tmp_path: Path) -> None:
    code = "sys.stdin.read(); open('ended', 'w').close()"
    with helper(tmp_path, code) as one:
        one.start()

    assert (tmp_path / "ended").exists()
    assert one.pids() == frozenset()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("sys.exit('no such broker amqp://u:s3cret@h')", "no such broker amqp://u:<hidden>@h"),
        ("sys.stdin.readline(); sys.exit(7)", wording("probes.helper-ended-silently")),
        ("os.kill(os.getpid(), 9)", wording("probes.helper-killed")),
        (
            "print('12 s3cret', flush=True); time.sleep(1000)",
            wording("probes.helper-should-answer", said="12 <hidden>"),
        ),
        (
            "print('nonsense', flush=True); time.sleep(1000)",
            wording("probes.helper-should-answer", said="nonsense"),
        ),
        ("os.write(1, b'1' * (3 << 20)); time.sleep(1000)", wording("probes.helper-does-not-end-line")),
        (
            "sys.stdin.readline(); os.close(1); time.sleep(1000)",
            wording("probes.helper-closed-stdout"),
        ),
    ],
    ids=key_of,
)
def test_one_that_fails_says_how_and_is_started_anew(
    tmp_path: Path, code: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.probes.helper._LEAVING_S", 1.0)
    with helper(tmp_path, code) as one:
        one.start()

        assert said in error_of(one.ask)
        assert one.pids() == frozenset()
        assert said in error_of(one.ask)
        assert one.n_starts == 2


def test_one_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    first = (
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '1000'])\n"
        "with open('child', 'w') as file: file.write(str(child.pid))\n"
    )
    with helper(tmp_path, "time.sleep(1000)", first=first, timeout_s=0.5) as one:
        one.start()  # has a minute, whatever the limit of an answer: the child is there afterwards
        child = int((tmp_path / "child").read_text())
        assert is_running(child)
        said = error_of(one.ask)

    assert said == wording("probes.helper-did-not-answer")
    deadline_s = time.monotonic() + LONG_S
    while is_running(child):
        assert time.monotonic() < deadline_s, "the child is still there"
        time.sleep(0.01)


def test_what_it_cannot_say_now_and_what_it_never_can_are_different_errors(tmp_path: Path) -> None:
    code = (
        "print(json.dumps({'error': 'no answer from w1'}), flush=True)\n"
        "print(json.dumps({'wrong': 'two nodes are called w1'}), flush=True); sys.stdin.read()"
    )
    with helper(tmp_path, code) as one:
        one.start()
        pids = one.pids()

        assert error_of(one.ask) == wording("probes.no-answer-from-a-node")
        with raises(ConfigError, wording("probes.two-nodes-of-one-name")):
            one.ask()
        assert one.pids() == pids


def test_an_interpreter_that_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "says.py").touch()
    start = HelperStart(tmp_path / "says.py", ["/no/such/python"], {}, str(tmp_path))
    with closing(Helper(start, {}, LONG_S)) as one:
        assert error_of(one.start) == "/no/such/python " + wording("launch.cannot-be-run-no-file")


def test_it_ends_when_tuner_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "says.py"
    program.write_text(_SAYS + "sys.stdin.read()")
    tuner = (
        "import os, sys, time; from pathlib import Path\n"
        "from tuner.adapters.probes.helper import Helper, HelperStart\n"
        f"start = HelperStart(Path({str(program)!r}), [sys.executable, '-S'], dict(os.environ), '/')\n"
        "one = Helper(start, {}, 60.0); one.start(); print(*one.pids(), flush=True); time.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-c", tuner], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        running = Path(f"/proc/{pid}/cmdline").read_bytes()
        os.kill(parent.pid, signal.SIGKILL)
    deadline_s = time.monotonic() + LONG_S
    while _command_of(pid) == running:
        assert time.monotonic() < deadline_s, "it is still there"
        time.sleep(0.01)


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


#: the n-th to be started, it gives the n-th list of answers of the file "told", and then ends
_COUNTS = """\
told = json.load(open("told"))
answers, rest = told[0], told[1:] or [told[0]]
json.dump(rest, open("told", "w"))
for line, answer in zip(sys.stdin, answers):
    print(json.dumps(answer), flush=True)
"""


def counts(done: int, failed: int | None = None) -> dict[str, object]:
    return {"done": {"w1": done}, "failed": None if failed is None else {"w1": failed}, "nodes": 1}


def told(
    folder: Path, answers: Sequence[Sequence[object]], until: Callable[[Reading], bool], *, events: bool
) -> tuple[Reading, list[str]]:
    """What is read in the end, and the warnings."""
    (folder / "told").write_text(json.dumps(answers))
    warned: list[str] = []
    deadline_s = time.monotonic() + LONG_S
    with helper(folder, _COUNTS) as one:
        one.start()
        counting = CeleryCounting(
            SystemClock(), one, lambda slug, text: warned.append(f"{slug}: {text}"), hears_events=events
        )
        with polling(counting):
            while not until(reading := counting.read()):
                assert time.monotonic() < deadline_s, f"still {reading}"
    return reading, warned


def test_a_node_that_was_restarted_counts_anew_and_nothing_is_lost(tmp_path: Path) -> None:
    answers = [[counts(100), counts(110), counts(4), *[counts(6)] * 1000]]
    reading, warned = told(tmp_path, answers, lambda r: r.n_done_total == 16, events=False)

    assert reading.n_failed_total == 0
    assert len(warned) == 1
    assert wording("probes.celery-counts-anew-at-all") in start_of(warned[0])


def test_a_helper_that_asks_and_is_started_anew_loses_nothing_and_says_nothing(tmp_path: Path) -> None:
    answers = [[counts(100), counts(110)], [counts(125)] * 1000]
    _, warned = told(tmp_path, answers, lambda r: r.n_done_total == 25, events=False)

    assert warned == []


def test_a_helper_that_listens_and_is_started_anew_counts_from_0_and_says_so(tmp_path: Path) -> None:
    answers = [[counts(0, 0), counts(10, 2)], [counts(5, 0), *[counts(15, 3)] * 1000]]
    reading, warned = told(tmp_path, answers, lambda r: r.n_done_total == 25, events=True)

    assert reading.n_failed_total == 5
    assert [text.partition(";")[0] for text in warned] == [
        wording("probes.celery-counts-anew", state="done", was=10),
        wording("probes.celery-counts-anew", state="failed", was=2),
    ]


@pytest.mark.parametrize("answer", [{"done": 5}, {"done": {"w1": -1}}, {"done": {"w1": "many"}}])
def test_what_are_no_counts_is_said(tmp_path: Path, answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.adapters.probes.polled.MOST_FAILURES_AT_FIRST", 1)
    with raises(MeasurementError, wording("probes.helper-told-no-counts")):
        told(tmp_path, [[answer] * 1000], lambda _: False, events=False)
