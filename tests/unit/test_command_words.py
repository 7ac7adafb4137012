"""What stands before a program, as people type it."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from tuner.core.command_words import is_runner, split_command, taken_apart

from ..raising import raises
from ..wording import wording


@pytest.mark.parametrize(
    ("before", "interpreter", "words", "program"),
    [
        ("", "", "/srv/.venv/bin/gunicorn app:app -w 3", "gunicorn"),
        ("", "python3.12 -X dev -W ignore -m", "gunicorn.app.wsgiapp app:app", "gunicorn"),
        ("", "python -u", "jobs/worker.py --n 3", "worker.py"),
        ("", "python", "-c pass", "-c"),
        ("uv run", "", "gunicorn app:app", "gunicorn"),
        ("uv --project web run --with gevent -p 3.13 --", "", "gunicorn app:app", "gunicorn"),
        ("uv run --extra=jobs -m", "", "celery -A proj worker", "celery"),
        ("/usr/bin/poetry -C web run", "python -m", "celery -A proj worker", "celery"),
        ("pipenv run", "", "rq worker-pool", "rq"),
        ("pdm run -p web", "", "dramatiq app", "dramatiq"),
        ("hatch -e dev run", "", "web:gunicorn app:app", "gunicorn"),
        ("nice -n 5", "", "celery worker -n w1", "celery"),
        ("ionice -c 2 nice uv run", "", "celery worker", "celery"),
        ("", "", "uv sync", "uv"),
        ("", "", "uv run", "uv"),
        ("", "", "env -i A=1 gunicorn", "env"),
        ("", "", "env", "env"),
        ("", "python -m", "", ""),
        ("", "", "", ""),
    ],
)
def test_a_command_is_its_program_and_what_stands_before_it(
    before: str, interpreter: str, words: str, program: str
) -> None:
    typed = shlex.split(f"{before} {interpreter} {words}")

    taken = taken_apart(typed)

    assert (taken.before, taken.interpreter, taken.words) == tuple(
        tuple(part.split()) for part in (before, interpreter, words)
    )
    assert taken.program == program
    assert taken.whole == tuple(typed)


def test_what_env_assigns_is_told_apart_wherever_it_stands() -> None:
    taken = taken_apart(["env", "A=1", "B=x=y", "uv", "run", "env", "A=2", "gunicorn", "C=3"])

    assert taken.assigned == {"A": "2", "B": "x=y"}
    assert taken.whole == ("uv", "run", "gunicorn", "C=3")


def test_exec_means_nothing_without_a_shell() -> None:
    assert taken_apart(["exec", "gunicorn", "app:app"]).whole == ("gunicorn", "app:app")
    assert taken_apart(["exec"]).whole == ("exec",)


@pytest.mark.parametrize(
    ("line", "runs_another"),
    [
        ("uv run gunicorn app:app", True),
        ("/usr/bin/python3 /usr/local/bin/pdm run gunicorn app:app", True),
        ("python3 -m pdm run gunicorn", False),  # it is a program of that name: nobody knows
        ("/srv/.venv/bin/python3 /srv/.venv/bin/gunicorn app:app", False),
        ("gunicorn: worker [app:app]", False),
        ("", False),
    ],
)
def test_a_process_shows_whether_it_still_is_the_runner(line: str, runs_another: bool) -> None:
    assert is_runner(line.split()) is runs_another


WRITTEN = [
    ("run w.py \\\n  --threads 2\n", ["run", "w.py", "--threads", "2"]),
    ("run \\\r\n  x\r\n", ["run", "x"]),
    ("long\\\nword", ["longword"]),
    ("run \"a\\\nb\" 'a\\\nb'", ["run", "ab", "a\\\nb"]),
    ("run \"a'b\" 'c\"\\\n' d'e \\\nf'", ["run", "a'b", 'c"\\\n', "de \\\nf"]),
    ('run a\\\\ b "a\\\\\nb" \\\'\\\n\\\' \\"\\\n\\"', ["run", "a\\", "b", "a\\\nb", "''", '""']),
    ("", []),
]


@pytest.mark.parametrize(("text", "words"), WRITTEN)
def test_a_command_is_split_as_a_shell_does(text: str, words: list[str]) -> None:
    assert split_command(text) == words


@pytest.mark.parametrize("text", [text for text, words in WRITTEN if words])
def test_a_shell_splits_them_so(text: str) -> None:
    script = f"for word in {text.replace(chr(13), '')}\ndo printf '%s\\0' \"$word\"; done"

    printed = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True).stdout

    assert printed.split("\0")[:-1] == dict(WRITTEN)[text]


@pytest.mark.parametrize("text", ["run 'x", 'run "x', "run x\\", 'run "x\\\n'])
def test_a_command_with_an_open_quote_is_refused(text: str) -> None:
    with raises(ValueError, wording("services.words")):
        split_command(text)
