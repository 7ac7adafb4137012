"""What a program prints of an option that it does not know ends a study; other ends of a start do not."""

from __future__ import annotations

import pytest

from tuner.core.text.usage_errors import rejected_option


@pytest.mark.parametrize(
    ("how", "output", "option"),
    [
        (
            "exit status 2",
            "usage: gunicorn [OPTIONS]\ngunicorn: error: unrecognized arguments: --fancy 3",
            "--fancy",
        ),
        ("exit status 2", "worker: error: unrecognized arguments: --fancy=3\n", "--fancy"),
        (
            "exit status 2",
            "Try 'x --help'.\n\nError: No such option '--fancy'. Did you mean '--f'?",
            "--fancy",
        ),
        ("exit status 2", "Error: No such option: --no-fancy\n", "--no-fancy"),  # click before 8.2
        ("exit status 2", "\nhuey_consumer: error: no such option: -x\n", "-x"),
        ("exit status 1", "uwsgi: unrecognized option '--fancy'\ngetopt_long() error\n", "--fancy"),
        ("exit status 1; its log ends: x", "Error: option --fancy not recognized\n\nUsage:\n", "--fancy"),
        ("exit status 2", "error: unexpected argument '--fancy' found\n", "--fancy"),  # clap
        ("exit status 1", "Error: unknown flag: --fancy\n", "--fancy"),  # cobra
    ],
)
def test_an_option_that_the_program_does_not_know_is_found(how: str, output: str, option: str) -> None:
    assert rejected_option(how, output) == option


@pytest.mark.parametrize(
    ("how", "output"),
    [
        ("terminated by SIGKILL", "gunicorn: error: unrecognized arguments: --fancy"),
        ("exit status 0", "Error: No such option '--fancy'."),
        ("exit status 20", "Error: No such option '--fancy'."),
        ("exit status 2", "[Errno 98] Address already in use\n"),
        ("exit status 1", "redis.exceptions.ConnectionError: Error 111 connecting to 127.0.0.1:6379.\n"),
        ("exit status 2", "x: error: argument --threads: invalid choice: '0'\n"),
        ("exit status 2", "x: error: unrecognized arguments: password\n"),
        ("exit status 1", "INFO a job said that there is no such option --fancy in its settings\n"),
        ("exit status 2", ""),
    ],
)
def test_another_end_may_be_of_this_start_only(how: str, output: str) -> None:
    assert rejected_option(how, output) is None
