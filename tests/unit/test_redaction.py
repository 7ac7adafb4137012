from __future__ import annotations

import pytest

from tuner.core.text.safe_text import HIDDEN, hidden_in, looks_secret, redact

pytestmark = pytest.mark.pythons


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
        "--db.password",
        "spring.datasource.password",
        "PGPASSWORD",
        "MYSQL_PWD",
        "DB_PASSWORD2",
        "--basic-auth",
        "X-Auth",
        "auth_token",
        "accessToken",
        "API_TOKENS",
        "--session-cookie",
        "Set-Cookie",
        "--sentry-dsn",
        "Proxy-Authorization",
        "apiKey",
        "X-Api-Key",
        "secret_key",
        "access-key",
        "PRIVATE_KEY",
        "STRIPE_KEY",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "KEYBOARD", "AUTHOR", "THREADS", "MONKEY", "PASSENGERS", "--number-of-threads"),
        *("TOKENIZERS_PARALLELISM", "--max-tokens", "max_new_tokens", "maxTokens", "secretary"),
        *("key", "KEY", "sort_key", "SORT_KEY", "primary-key", "REDIS_KEY", "PUBLIC_KEY"),
        *("PWD", "OLDPWD", "OAUTH_CLIENT_ID"),
    ],
)
def test_other_names_are_left_alone(name: str) -> None:
    assert not looks_secret(name)


def test_assignments_of_secrets_in_words_and_in_texts_of_words_lose_their_values() -> None:
    shown = redact(
        {
            "command": ["env", "DB_PASSWORD=hunter2", "A=1", "gunicorn", "--env", "SECRET_KEY=abc"],
            "environment": {"GUNICORN_CMD_ARGS": "--workers=4 --env API_TOKEN=tok --threads=2"},
        }
    )

    assert shown["command"] == [
        *("env", "DB_PASSWORD=<hidden>", "A=1", "gunicorn", "--env", "SECRET_KEY=<hidden>")
    ]
    assert shown["environment"]["GUNICORN_CMD_ARGS"] == "--workers=4 --env API_TOKEN=<hidden> --threads=2"


def test_the_whole_rest_of_a_word_goes_and_of_a_script_what_a_shell_would_take() -> None:
    assert redact(["env", "PASSWORD=a b,c", "A=b c"]) == ["env", "PASSWORD=<hidden>", "A=b c"]
    assert redact(["--db.password=a b"]) == ["--db.password=<hidden>"]
    assert redact(["sh", "-c", "PASSWORD=a,b run it"]) == ["sh", "-c", "PASSWORD=<hidden> run it"]


def test_values_go_and_names_stay_wherever_a_secret_may_stand() -> None:
    shown = redact(
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
    assert redact("redis://u:p@ss@h/0?x=1") == "redis://<hidden>@h/0?x=1"


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
        ("{'password': 'hunter22'}", "{'password': '<hidden>'}"),
        ("{'password': 'hunter22', 'threads': 4}", "{'password': '<hidden>', 'threads': 4}"),
        ('{"password": 123456, "threads": 4}', '{"password": <hidden>, "threads": 4}'),
        ('{"passwords": ["hunter22", "hunter23"]}', '{"passwords": <hidden>}'),
        ('{"password":"hunter22', '{"password":"<hidden>'),
        ("auth_token: 'hunter22'", "auth_token: '<hidden>'"),
        ("password = hunter22", "password = <hidden>"),
        ("password:hunter22", "password:<hidden>"),
        ("X-Auth:hunter22", "X-Auth:<hidden>"),
        ("spring.datasource.password=hunter22", "spring.datasource.password=<hidden>"),
        ("run --db.password=hunter22 --threads 4", "run --db.password=<hidden> --threads 4"),
        ("run --basic-auth u:hunter22 --threads 4", "run --basic-auth <hidden> --threads 4"),
        ("run --session-cookie=hunter22", "run --session-cookie=<hidden>"),
        ("run --sentry-dsn=hunter22", "run --sentry-dsn=<hidden>"),
        ("Set-Cookie: id=hunter22; Path=/", "Set-Cookie: <hidden>"),
        ('Cookie: a="hunter 22"; b=hunter22', "Cookie: <hidden>"),
        ("X-Auth: hunter22", "X-Auth: <hidden>"),
        ("MYSQL_PWD=hunter22 DB_PASSWORD2=hunter22 run", "MYSQL_PWD=<hidden> DB_PASSWORD2=<hidden> run"),
        ("PASSWORD=ab,cdefgh run", "PASSWORD=<hidden> run"),
        ("PASSWORD=ab'c d'\"ef\" run", "PASSWORD=<hidden> run"),
        ("PASSWORD='hunter two", "PASSWORD=<hidden>"),
        ("sh -c 'PASSWORD=hunter22' --name 'x'", "sh -c 'PASSWORD=<hidden>' --name 'x'"),
        ("run '--password=hunter22' --name 'x'", "run '--password=<hidden>' --name 'x'"),
        ("{password=hunter22}", "{password=<hidden>"),
        ("get /x?password=hunter22&y=1", "get /x?password=<hidden>&y=1"),
        ("-bredis://u:hunter22@h 1redis://u:hunter22@h", "-bredis://<hidden>@h 1redis://<hidden>@h"),
        ("--max-tokens 512 key: 3", "--max-tokens 512 key: 3"),
        ("select 1 where key='done' and sort_key = 3", "select 1 where key='done' and sort_key = 3"),
        ("gunicorn password_reset.wsgi:app", "gunicorn password_reset.wsgi:app"),
        ("gunicorn project.auth:app", "gunicorn project.auth:app"),
        ("error: password: hunter22", "error: password: <hidden>"),
        ("INFO:root:password: hunter22", "INFO:root:password: <hidden>"),
        ("run --verbose --password hunter22 4", "run --verbose --password <hidden> 4"),
        ("-m worker --threads 4", "-m worker --threads 4"),
        ("started at 12:30: 4 threads", "started at 12:30: 4 threads"),
    ],
)
def test_secrets_in_a_text_go_as_those_in_words_do(text: str, shown: str) -> None:
    assert redact(text) == shown


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


def test_each_line_of_a_secret_is_looked_for() -> None:
    environment = {"PRIVATE_KEY": "-----BEGIN\nMIIEvQIBADAN\nend\n"}

    assert hidden_in("-----BEGIN\\nMIIEvQIBADAN of end", environment) == "<hidden>\\n<hidden> of end"
