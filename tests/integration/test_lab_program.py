"""A program of an experiment, run to its end: its clocks, what it printed, and how it can go wrong."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from tuner.core.errors import ConfigError, MeasurementError
from tuner.lab.experiments import EXPERIMENTS
from tuner.lab.experiments.experiment import LabJob, ProgramExperiment
from tuner.lab.lab import read_published
from tuner.lab.program import folder_of_programs, packages_of, run_job, versions_of

from ..raising import raises
from ..wording import key_of, wording

pytestmark = pytest.mark.integration


def run(tmp_path: Path, source: str, *options: str, at_most_s: float = 60.0) -> dict[str, float]:
    (tmp_path / "it.py").write_text(source)
    return run_job(LabJob("it.py", options, {"ITS_OWN": "3.5"}, at_most_s), [sys.executable], tmp_path)


def test_its_clocks_stand_beside_what_it_printed(tmp_path: Path) -> None:
    values = run(
        tmp_path,
        "import os, sys, time\n"
        "while sum(os.times()[:2]) < 0.3: pass\n"
        "time.sleep(float(sys.argv[1]))\n"
        "print('{\"n\": %s}' % os.environ['ITS_OWN'])",
        "0.2",
    )

    assert values["n"] == 3.5
    assert values["user_s"] + values["system_s"] >= 0.3
    assert values["total_s"] >= values["user_s"] + 0.2
    assert values["foreign_cores"] >= 0
    cpu_s = values["user_s"] + values["system_s"]
    assert values["cpu_percent"] == pytest.approx(100 * cpu_s / values["total_s"])


def test_the_children_that_it_waits_for_are_counted_in(tmp_path: Path) -> None:
    burns = "import os\nwhile sum(os.times()[:2]) < 0.3: pass"
    values = run(
        tmp_path, f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burns!r}])\nprint('{{}}')"
    )

    assert values["user_s"] + values["system_s"] >= 0.3


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("import sys; sys.exit('no such host')", wording("lab.program-failed", code=1, what="no such host")),
        ("import os; os.kill(os.getpid(), 11)", wording("lab.program-killed")),
        ("print('done')", wording("lab.program-printed-no-object-but", what="b'done")),
        ("print('[1]')", wording("lab.program-printed-no-object")),
        ("print('{\"n\": null}')", wording("lab.program-printed-no-object")),
        ("print('{\"n\": NaN}')", wording("lab.program-printed-no-object")),
        ("", wording("lab.program-printed-no-object-but", what="b''")),
    ],
    ids=key_of,
)
def test_a_program_that_fails_is_reported(tmp_path: Path, source: str, text: str) -> None:
    with pytest.raises(MeasurementError) as error:
        run(tmp_path, source)
    assert text in error.value.problem


def test_what_others_use_of_the_box_meanwhile_is_not_its_own(tmp_path: Path) -> None:
    """The other one burns while the program waits for it, so a share of a core it gets on any box."""
    burns = "import os\nwhile sum(os.times()[:2]) < 1: pass"
    other = subprocess.Popen([sys.executable, "-c", burns])
    values = run(
        tmp_path,
        "import os, sys, time\n"
        "while os.path.exists(f'/proc/{sys.argv[1]}/exe'): time.sleep(0.01)\n"
        "print('{}')",
        f"{other.pid}",
    )
    other.wait()

    assert values["foreign_cores"] * values["total_s"] > 0.8
    assert values["cpu_s"] < 0.8


def test_one_that_takes_too_long_is_killed_with_what_it_started(tmp_path: Path) -> None:
    """That nobody is left is what the fixture of every integration test looks at."""
    with raises(MeasurementError, wording("launch.took-longer-than-1-s")):
        run(
            tmp_path,
            "import subprocess, time\nsubprocess.Popen(['sleep', '1000'])\ntime.sleep(1000)",
            at_most_s=1.0,
        )


def test_one_that_cannot_be_watched_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That nobody is left is what the fixture of every integration test looks at."""

    def too_many(_pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", too_many)

    with raises(ConfigError, wording("lab.too-many-open-files-of-program")):
        run(tmp_path, "import time\ntime.sleep(1000)")


def test_one_that_leaves_something_running_does_not_leave_it_to_us(tmp_path: Path) -> None:
    values = run(
        tmp_path, "import subprocess\nprint('{\"pid\": %d}' % subprocess.Popen(['sleep', '1000']).pid)"
    )
    deadline_s = time.monotonic() + 30
    while os.path.exists(f"/proc/{values['pid']:.0f}/exe") and time.monotonic() < deadline_s:
        time.sleep(0.01)

    assert not os.path.exists(f"/proc/{values['pid']:.0f}/exe")


def test_a_python_says_what_it_has() -> None:
    interpreter, versions = packages_of(sys.executable, ["pytest", "no-such-package"])

    without_gil = "t" * bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert interpreter.endswith(".".join(map(str, sys.version_info[:3])) + without_gil)
    assert versions == {"pytest": pytest.__version__, "no-such-package": ""}


@pytest.mark.parametrize(
    ("python", "text"),
    [
        ("/no/such/python", wording("launch.cannot-be-run")),
        ("/bin/false", wording("lab.no-answer-of-python")),
    ],
    ids=key_of,
)
def test_what_is_no_python_is_reported(python: str, text: str) -> None:
    with raises(ConfigError, text):
        packages_of(python, [])


def test_a_program_has_a_folder_of_its_own_which_goes_away_with_it(tmp_path: Path) -> None:
    text = tmp_path / "folder"
    run(
        tmp_path,
        "import sys, tempfile\n"
        "open(tempfile.gettempdir() + '/left', 'w').close()\n"
        "open(sys.argv[1], 'w').write(tempfile.gettempdir())\n"
        "print('{}')",
        str(text),
    )
    own = Path(text.read_text())

    assert own.name.startswith("lab-")
    assert not own.exists()


def test_the_folder_of_one_that_was_killed_goes_away_too(tmp_path: Path) -> None:
    text = tmp_path / "folder"
    with raises(MeasurementError, wording("launch.killed-by-signal")):
        run(
            tmp_path,
            "import os, sys, tempfile\n"
            "open(tempfile.gettempdir() + '/left', 'w').close()\n"
            "open(sys.argv[1], 'w').write(tempfile.gettempdir())\n"
            "os.kill(os.getpid(), 9)",
            str(text),
        )

    assert not Path(text.read_text()).exists()


def test_another_program_tells_its_version() -> None:
    (version,) = versions_of({"git": ["--version"]}).values()

    assert re.fullmatch(r"\d+(\.\d+)+", version)


def test_a_program_that_is_not_there_has_no_version_and_one_that_fails_is_reported() -> None:
    assert versions_of({"no-such-server": ["--version"], "echo": []}) == {
        "no-such-server": "",
        "echo": "of no number",
    }
    with raises(ConfigError, wording("lab.version-untold")):
        versions_of({"false": []})


def test_every_program_is_installed() -> None:
    programs = [one for one in EXPERIMENTS if isinstance(one, ProgramExperiment)]
    assert len(programs) >= 4
    for experiment in programs:
        for at in experiment.points(list(experiment.published(read_published())), quick=False):
            assert (folder_of_programs() / experiment.job(at).program).is_file()
