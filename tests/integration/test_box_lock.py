"""The box lock among real processes and users."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tuner
from tuner.adapters.host_lock import hold_host
from tuner.core.errors import ConfigError

from ..raising import raises
from ..wording import wording

pytestmark = pytest.mark.integration
HOLDER = """
import sys
from pathlib import Path
from tuner.adapters.host_lock import hold_host
with hold_host(sys.argv[2], Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "box.lock"


@pytest.fixture
def other_tuner(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds *lock* until its stdin closes."""
    argv = [sys.executable, "-c", HOLDER, str(lock), "night shift"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_second_tuner_is_reported_who_has_the_box(other_tuner: subprocess.Popen[str], lock: Path) -> None:
    with pytest.raises(ConfigError) as refused, hold_host("mine", lock):
        pytest.fail("two tuners had the box")

    assert f"pid {other_tuner.pid} of user " in refused.value.problem
    assert wording("launch.lock-held-by-study") in refused.value.problem
    assert refused.value.exit_code == 2


def test_the_box_is_free_when_its_holder_is_done(lock: Path) -> None:
    for _ in range(2):
        with hold_host("mine", lock):
            assert json.loads(lock.read_bytes())["pid"] == os.getpid()

    assert lock.read_bytes() == b""


def test_a_killed_holder_leaves_the_box_free(other_tuner: subprocess.Popen[str], lock: Path) -> None:
    other_tuner.kill()
    other_tuner.wait()

    with hold_host("mine", lock):
        assert json.loads(lock.read_bytes())["study"] == "mine"


@pytest.mark.parametrize("is_collected", [True, False], ids=["gone", "zombie"])
def test_a_tuner_waits_for_the_guardian_of_a_killed_one(
    other_tuner: subprocess.Popen[str], lock: Path, is_collected: bool
) -> None:
    other_tuner.kill()
    os.waitid(os.P_PID, other_tuner.pid, os.WEXITED | (0 if is_collected else os.WNOWAIT))
    # what a guardian does: it keeps the dead tuner's lock a little longer
    with lock.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        guardian = subprocess.Popen(["sleep", "1"], pass_fds=[held.fileno()])

    with hold_host("mine", lock):
        assert guardian.wait(timeout=0.2) == 0


def test_every_user_can_take_the_lock_that_another_made(lock: Path) -> None:
    with hold_host("mine", lock):
        pass

    assert lock.stat().st_mode & 0o777 == 0o666


def test_a_lock_that_is_a_link_is_refused_and_its_target_untouched(lock: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("keep me")
    lock.symlink_to(target)

    with (
        raises(ConfigError, wording("launch.cannot-open-box-lock")),
        hold_host("mine", lock),
    ):
        pytest.fail("a link was taken for a lock")
    assert target.read_text() == "keep me"


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: os.link(__file__, path)], ids=["pipe", "second name"]
)
def test_a_lock_that_is_no_plain_file_of_its_own_is_refused(make, lock: Path) -> None:
    try:
        make(lock)
    except OSError as error:
        pytest.skip(f"cannot be made here: {error}")

    with raises(ConfigError, wording("launch.lock-is-no-plain-file")), hold_host("mine", lock):
        pytest.fail("it was taken for a lock")


def test_garbage_in_the_lock_file_does_not_matter(lock: Path) -> None:
    lock.write_bytes(b"\xff[" * 5000)

    with hold_host("mine", lock):
        assert json.loads(lock.read_bytes())["study"] == "mine"


def test_a_lock_in_a_missing_folder_is_one_clear_error(tmp_path: Path) -> None:
    with (
        raises(ConfigError, wording("launch.no-such-file-or-directory")),
        hold_host("mine", tmp_path / "no" / "lock"),
    ):
        pytest.fail("there is no such folder")


def test_the_environment_names_the_lock(monkeypatch: pytest.MonkeyPatch, lock: Path) -> None:
    monkeypatch.setenv("TUNER_LOCK", str(lock))

    with hold_host("mine"):
        assert lock.exists()


def test_an_ordinary_user_can_hold_a_lock_that_root_made_and_root_the_other_way_round() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to be two users")
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o1777)
        with hold_host("root's", folder / "lock"):
            pass
        argv = ["/usr/bin/python3", "-c", HOLDER, str(folder / "lock"), "theirs"]
        environment = {"PYTHONPATH": str(Path(tuner.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        become = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, **become
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            result = raises(ConfigError, wording("launch.lock-of-another-user"))
            with result, hold_host("root's", folder / "lock"):
                pytest.fail("two tuners had the box")
            process.kill()
