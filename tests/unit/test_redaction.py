from __future__ import annotations

import pytest

from tuner.core.redaction import HIDDEN, hidden_in, looks_secret, redacted


@pytest.mark.parametrize(
    "name",
    [
        "PASSWORD",
        "DB_PASSWORD",
        "api_key",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "SENTRY_DSN",
        "--password",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name", ["PATH", "KEYBOARD", "AUTHOR", "THREADS", "MONKEY", "PASSENGERS", "--number-of-threads"]
)
def test_other_names_are_left_alone(name: str) -> None:
    assert not looks_secret(name)


def test_assignments_of_secrets_in_words_and_in_texts_of_words_lose_their_values() -> None:
    shown = redacted(
        {
            "command": ["env", "DB_PASSWORD=hunter2", "A=1", "gunicorn", "--env", "SECRET_KEY=abc"],
            "environment": {"GUNICORN_CMD_ARGS": "--workers=4 --env API_TOKEN=tok --threads=2"},
        }
    )

    assert shown["command"] == [
        *("env", "DB_PASSWORD=<hidden>", "A=1", "gunicorn", "--env", "SECRET_KEY=<hidden>")
    ]
    assert shown["environment"]["GUNICORN_CMD_ARGS"] == "--workers=4 --env API_TOKEN=<hidden> --threads=2"


def test_values_go_and_names_stay_wherever_a_secret_may_stand() -> None:
    shown = redacted(
        {
            "environment": {"DB_PASSWORD": "hunter2", "THREADS": "4"},
            "command": [
                "run",
                "--password",
                "hunter2",
                "--token=hunter2",
                "--threads=4",
                "redis://me:hunter2@host/0",
            ],
        }
    )

    assert "hunter2" not in str(shown)
    assert shown["environment"] == {"DB_PASSWORD": HIDDEN, "THREADS": "4"}
    assert shown["command"] == [
        "run", "--password", HIDDEN, f"--token={HIDDEN}", "--threads=4", f"redis://{HIDDEN}@host/0"
    ]  # fmt: skip


def test_a_password_with_an_at_sign_goes_whole() -> None:
    assert redacted("redis://u:p@ss@h/0?x=1") == "redis://<hidden>@h/0?x=1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("worker --password 'hunter two' --threads 4", "worker --password <hidden> --threads 4"),
        ("worker --api-key=hunter2;x", "worker --api-key=<hidden>"),
        ("PGPASSWORD='hunter two' psql", "PGPASSWORD=<hidden> psql"),
        ("sh -c 'PGPASSWORD=hunter2 psql'", "sh -c 'PGPASSWORD=<hidden> psql'"),
        ("curl -H 'Authorization: Bearer hunter2' x", "curl -H 'Authorization: <hidden>' x"),
        ("X-Api-Key: hunter2", "X-Api-Key: <hidden>"),
        ('{"user": "me", "password": "hunter\\"2"}', '{"user": "me", "password": "<hidden>"}'),
        ("host=db password=hunter2 dbname=x", "host=db password=<hidden> dbname=x"),
        ("-m worker --threads 4", "-m worker --threads 4"),
        ("started at 12:30: 4 threads", "started at 12:30: 4 threads"),
    ],
)
def test_secrets_in_a_text_go_as_those_in_words_do(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_what_a_program_wrote_is_shown_without_the_secrets_of_its_environment() -> None:
    environment = {
        "DB_PASSWORD": "hunter2hunter2",
        "BROKER": "amqp://me:s3cret-word@host//",
        "TOKEN": "1",
        "PATH": "/bin",
    }

    command = ["worker", "--password", "in-a-word", "--token=behind-a-sign", "--threads=4", "plain-word"]

    shown = hidden_in(
        "1 login of hunter2hunter2 failed (s3cret-word) in /bin: in-a-word behind-a-sign plain-word 4",
        environment,
        command,
    )

    assert shown == "1 login of <hidden> failed (<hidden>) in /bin: <hidden> <hidden> plain-word 4"
