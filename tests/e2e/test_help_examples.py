"""The example on each command's page of help, typed as it stands in a folder that has what it names.

What would measure for hours is played by a simulated box: ``--simulate`` is put behind it.
The study has two layouts: a plan of more simulates for as long as it may, 20 s on all cores.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.cli import COMMANDS, Command
from tuner.cli.completion import candidates

from .typed import Typed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
PROFILE = ROOT / "configs" / "profiles" / "socorro-2014.yaml"
SIMULATED = ("aa", "calibrate", "check", "grid", "plan")
#: what is not typed, and why; its options are looked at all the same
NOT_TYPED = {
    "tuner demo": "a minute of measuring: tests/e2e/test_demo.py, tests/e2e/test_package.py",
    "tuner grid --cores 24 -- gunicorn app:app --bind 127.0.0.1:8000": "tests/services has a real gunicorn",
    "tuner sample --url redis://127.0.0.1:6379/0 --queue celery -n 100 -o sample.json": "see the last test",
    "tuner lab nornir --quick": "it needs nornir: tests/services/test_lab.py",
    "tuner box tls://staging-1:8786 --certs fleet-certs": "tests/integration has real boxes",
    "tuner fleet scheduler --host 0.0.0.0 --certs fleet-certs": "the same has real schedulers",
    "tuner serve crash-processor.tuner.db": "it ends when it is told to: tests/e2e/test_serve.py",
}


def examples(command: Command) -> list[str]:
    function = getattr(importlib.import_module(command.module), command.name.replace("-", "_"))
    paragraphs = [" ".join(text.split()) for text in (function.__doc__ or "").split("\n\n")]
    return [text.removeprefix("Example: ") for text in paragraphs if text.startswith("Example: ")]


LONG = ("replay",)  #: thousands of studies
EXAMPLES = [
    pytest.param(command, example, marks=[pytest.mark.full] if command.name in LONG else [], id=example[:40])
    for command in COMMANDS
    for example in examples(command)
]


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study, once: the examples get copies."""
    folder = tmp_path_factory.mktemp("studies")
    done = Typed(folder)(
        *("grid", "--simulate", PROFILE, "--cores", "24", "--study", "study.tuner.db"),
        *("--strategy", "all", "--repeats", "3", "--layouts", "24x1,12x2,4x6,2x12,1x24,1x1"),
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(studies: Path, tmp_path: Path) -> Path:
    for name in ("study.tuner.db", "crash-processor.tuner.db", "before.tuner.db", "after.tuner.db"):
        shutil.copy(studies / "study.tuner.db", tmp_path / name)
    lucky = re.sub(
        r"^(  dies[\w-]*): \S+", r"\1: 0%", PROFILE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    (tmp_path / "profile.yaml").write_text(lucky, encoding="utf-8")
    (tmp_path / "study.yaml").write_text("service: {kind: crash-processor}\nstudy: {layouts: [24x1, 1x24]}\n")
    return tmp_path


def test_every_command_has_an_example() -> None:
    assert [command.name for command in COMMANDS if not examples(command)] == []


@pytest.mark.parametrize(("command", "example"), EXAMPLES)
def test_an_example_works(command: Command, example: str, folder: Path) -> None:
    if example in NOT_TYPED:
        options = [word for word in shlex.split(example.partition(" -- ")[0]) if word.startswith("-")]
        known = {one.word for one in candidates(f"tuner {command.name} -")[1]}
        assert set(options) <= known
        return
    arguments = shlex.split(example)[1:]
    if command.name == "init":
        (folder / "study.yaml").unlink()  # is never overwritten
    if command.name in SIMULATED:
        arguments += ["--simulate", "profile.yaml"]

    done = subprocess.run(
        [sys.executable, "-c", "from tuner.cli import main; main()", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )

    measured = {0, 4, 5} if command.name in SIMULATED else {0}  # weaker than asked, or stale, is an answer
    assert done.returncode in measured, done.stdout + done.stderr
    assert done.stdout or done.stderr


@pytest.mark.services
def test_the_example_that_samples_a_queue_works(folder: Path, redis_server) -> None:  # type: ignore[no-untyped-def]
    import redis

    sample = json.loads((ROOT / "tests" / "golden" / "messages" / "celery.json").read_text(encoding="utf-8"))
    with redis.Redis.from_url(redis_server.url) as client:
        for message in sample["messages"]:
            client.lpush("celery", message["body"])
    (example,) = (one for command in COMMANDS if command.name == "sample" for one in examples(command))
    words = [redis_server.url if "://" in word else word for word in shlex.split(example)[1:]]

    done = Typed(folder)(*words)

    assert done.returncode == 0, done.stderr
    assert (folder / "sample.json").is_file()
