"""What stands before a program, as people type it."""

from __future__ import annotations

import shlex
import subprocess
from types import EllipsisType

import pytest

from tuner.core.text.command_words import is_runner, parse_command, split_command

from ..raising import raises
from ..wording import key_of, wording


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
        ("", "", "env", "env"),
        ("", "python -m", "", ""),
        ("", "", "", ""),
    ],
)
def test_a_command_is_its_program_and_what_stands_before_it(
    before: str, interpreter: str, words: str, program: str
) -> None:
    typed = shlex.split(f"{before} {interpreter} {words}")

    taken = parse_command(typed)

    assert (taken.before, taken.interpreter, taken.words) == tuple(
        tuple(part.split()) for part in (before, interpreter, words)
    )
    assert taken.program == program
    assert taken.whole == tuple(typed)


GUNICORN = "gunicorn app:app"
#: what starts gunicorn, as it is typed, and what is left of it before gunicorn's own words
STARTED = [
    ("ddtrace-run", ...),
    ("ddtrace-run --profiling", ...),
    ("newrelic-admin run-program", ...),
    ("opentelemetry-instrument", ...),
    ("opentelemetry-instrument --traces_exporter console --service_name=web", ...),
    ("/venv/bin/opentelemetry-instrument --logs_exporter otlp", ...),
    ("numactl --cpunodebind=0 --membind 0", ...),
    ("numactl -C 0-3 -l", ...),
    ("numactl --phys 0", ...),
    ("taskset 0x3", ...),
    ("taskset -c 0,1", ...),
    ("taskset -ac 0-1", ...),
    ("stdbuf -oL", ...),
    ("stdbuf -o L --error=0", ...),
    ("timeout 60", ...),
    ("timeout -k 5 -s INT 1h", ...),
    ("timeout --kill-after 5 --foreground 60", ...),
    ("timeout --kill 5 --sig=INT 60", ...),
    ("sudo -u web -H", ...),
    ("sudo -Eu web --", ...),
    ("sudo --user web A=1", ...),
    ("gosu web", ...),
    ("su-exec web:web", ...),
    ("setpriv --reuid=1000 --clear-groups", ...),
    ("conda run -n web", ...),
    ("conda run --no-capture-output -p /envs/web --", ...),
    ("micromamba run -n web", ...),
    ("uv run", ...),
    ("uv run --env-file .env --group prod --", ...),
    ("poetry -C web run", ...),
    ("pipenv run", ...),
    ("tini --", ...),
    ("/sbin/tini -s -p SIGTERM -e 143 -g --", ...),
    ("docker-init", ...),
    ("dumb-init", ...),
    ("/usr/bin/dumb-init -c --rewrite 15:2 --", ...),
    ("py-spy record -o p.svg -r 50 --subprocesses --", ...),
    ("nice", ...),
    ("nice -n5", ...),
    ("nice -5", ...),
    ("nice --adj 5", ...),
    ("ionice -c2 -n 7", ...),
    ("chrt -b 0", ...),
    ("nohup", ...),
    ("setsid -w", ...),
    ("prlimit --nofile=1024", ...),
    ("strace -f -o out", ...),
    ("time -p", ...),
    ("env -u A -C /srv B=1", ...),
    ("env -i PATH=/bin", ...),
    ("env - A=1", ...),
    ("dotenv -f .env run --", ...),
    ("doppler run --project web --", ...),
    ("env A=1", ""),
    ("A=1 B=2", ""),
    ("exec", ""),
    ("A=1 exec", ""),
    ("exec -a web", ""),
    ("env A=1 nice -n 5 tini -- uv run", "nice -n 5 tini -- uv run"),
    ("tini -- timeout 60 nice ddtrace-run", ...),
]


@pytest.mark.parametrize(("typed", "left"), STARTED, ids=[typed for typed, _ in STARTED])
def test_what_starts_a_service_is_seen_through(typed: str, left: str | EllipsisType) -> None:
    taken = parse_command(f"{typed} {GUNICORN}".split())

    before = typed if isinstance(left, EllipsisType) else left
    assert (taken.before, taken.words) == (tuple(before.split()), tuple(GUNICORN.split()))
    assert taken.program == "gunicorn"


@pytest.mark.parametrize(
    "line",
    [
        "timeout",
        "timeout 60",
        "taskset -p 700",
        "taskset -cp 0,1 700",
        "ionice -c 3 -p 89",
        "py-spy record --pid 12",
        "py-spy dump gunicorn",
        "newrelic-admin validate-config gunicorn",
        "conda install gunicorn",
        "sudo -l gunicorn",
        "env",
        "nice -n 5",
    ],
)
def test_a_wrapper_that_starts_nothing_is_the_program_itself(line: str) -> None:
    taken = parse_command(line.split())

    assert (taken.before, taken.whole) == ((), tuple(line.split()))


@pytest.mark.parametrize(
    ("typed", "whole", "assigned"),
    [
        (["sh", "-c", "gunicorn app:app"], "gunicorn app:app", {}),
        (["sh", "-c", "exec gunicorn -b :$PORT app:app"], "gunicorn -b :9000 app:app", {}),
        (["/bin/bash", "-ec", "A=1 B='2 3' gunicorn app:app"], "gunicorn app:app", {"A": "1", "B": "2 3"}),
        (["sh", "-c", 'gunicorn app:app "$@"', "sh", "-w", "3"], "gunicorn app:app -w 3", {}),
        (["sh", "-c", "nice -n 5 gunicorn app:app"], "nice -n 5 gunicorn app:app", {}),
        (["tini", "--", "sh", "-c", "exec gunicorn app:app"], "tini -- gunicorn app:app", {}),
        (["env", "-S", "A=1 gunicorn app:app"], "gunicorn app:app", {"A": "1"}),
    ],
)
def test_a_shell_that_does_nothing_else_is_left_out(
    typed: list[str], whole: str, assigned: dict[str, str]
) -> None:
    taken = parse_command(typed, {"PORT": "9000"})

    assert (" ".join(taken.whole), taken.assigned) == (whole, assigned)
    assert taken.program == "gunicorn"


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        (["bash", "-lc", "gunicorn app:app"], 'exec "$0" "$@"'),
        (["sh", "-c", "cd /srv && exec gunicorn app:app"], 'cd /srv && exec "$0" "$@"'),
        (["sh", "-c", "set -e\n. ./env\ngunicorn app:app"], 'set -e\n. ./env\nexec "$0" "$@"'),
        (["sh", "-c", "x() { a ${A}; }; x; gunicorn app:app"], 'x() {{ a ${{A}}; }}; x; exec "$0" "$@"'),
    ],
)
def test_a_shell_that_does_more_gets_the_command_behind_its_text(typed: list[str], text: str) -> None:
    taken = parse_command(typed)

    assert taken.whole == (*typed[:-1], text, "gunicorn", "app:app")
    assert (taken.words, taken.has_setup) == (("gunicorn", "app:app"), True)
    assert parse_command(taken.whole).whole == taken.whole  # it is stored so, and looked at again


def test_such_a_text_runs_what_stands_before_and_then_the_command() -> None:
    taken = parse_command(["sh", "-c", "A=1; export A; cd / && env"])

    printed = subprocess.run(taken.whole, check=True, capture_output=True, text=True).stdout.split("\n")

    assert {"A=1", "PWD=/"} <= set(printed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gunicorn app:app | tee log", wording("services.shell-pipe")),
        ("PORT=1; gunicorn -b :$PORT app:app", wording("services.shell-sets-variable")),
        (". ./env; gunicorn -b :$HOST app:app", wording("services.shell-reads-variable")),
        ('cd "$(dirname "$0")"; gunicorn app:app', wording("services.shell-own-name")),
    ],
    ids=key_of,
)
def test_a_command_that_only_the_shell_can_make_is_left_as_it_is(text: str, said: str) -> None:
    taken = parse_command(["sh", "-c", text], {"PORT": "9000"})

    assert (taken.before, taken.whole) == ((), ("sh", "-c", text))
    assert taken.obstacle == said


def test_who_hides_the_environment_or_changes_the_user_is_known() -> None:
    hiding = ["env -i A=1", "sudo -u web", "sudo -u web tini --", "setpriv --reset-env"]
    showing = ["env -u A", "sudo -E -u web", "gosu web", "tini --"]

    assert [parse_command(f"{one} gunicorn".split()).hides_environment for one in hiding] == [True] * 4
    assert [parse_command(f"{one} gunicorn".split()).hides_environment for one in showing] == [False] * 4
    assert [parse_command(f"{one} gunicorn".split()).is_as_user for one in (*hiding, *showing)] == [
        *(False, True, True, True),
        *(False, True, True, False),
    ]


def test_what_env_assigns_is_kept_apart_wherever_it_stands() -> None:
    taken = parse_command(["env", "A=1", "B=x=y", "uv", "run", "env", "A=2", "gunicorn", "C=3"])

    assert taken.assigned == {"A": "2", "B": "x=y"}
    assert taken.whole == ("uv", "run", "gunicorn", "C=3")


def test_exec_means_nothing_without_a_shell() -> None:
    assert parse_command(["exec", "gunicorn", "app:app"]).whole == ("gunicorn", "app:app")
    assert parse_command(["exec"]).whole == ("exec",)


@pytest.mark.parametrize(
    ("line", "runs_another"),
    [
        ("uv run gunicorn app:app", True),
        ("timeout 60 gunicorn app:app", True),
        ("tini -- gunicorn app:app", True),
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
