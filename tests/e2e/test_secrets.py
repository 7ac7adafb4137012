"""A canary in every place where a secret may stand: none of what tuner keeps, prints or writes holds it."""

from __future__ import annotations

import pytest

from ..wording import wording
from .typed import Typed

pytestmark = pytest.mark.integration
CANARY = "canary-7f3a9b"
READING = (
    ("rank",),
    ("rank", "--json"),
    ("explain",),
    ("watch", "--once"),
    ("watch", "--json"),
    ("export", "--page"),
    ("export", "--snippet", "supervisor"),
    ("export", "--snippet", "env"),
    ("report",),
)
#: one worker says what it knows, and dies; so its words are in the study's error
CONFIG = f"""\
service:
  kind: script
  name: worker
  command:
    - sh
    - -c
    - 'echo "no login with $DB_PASSWORD at $BROKER_URL, $API_TOKEN" "$*"; exit 7; PASSWORD={CANARY}-1'
    - --password
    - {CANARY}-2
    - --token={CANARY}-3
    - redis://me:{CANARY}-4@127.0.0.1/0
    - 'Authorization: Bearer {CANARY}-5'
  environment:
    DB_PASSWORD: {CANARY}-6
    BROKER_URL: amqp://me:{CANARY}-7@127.0.0.1//
  environment_file: secret.env
study: {{strategy: all, layouts: [1x1], window: 1s, warmup: 1s, repeats: 1, max_attempts: 1, warm_cache: no}}
hooks:
  before_study: [["true", --password, {CANARY}-8]]
"""


def test_no_secret_of_config_command_or_environment_is_kept_or_shown(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    (typed.folder / "s.yaml").write_text(CONFIG, encoding="utf-8")
    (typed.folder / "secret.env").write_text(f"SMTP_PASSWORD={CANARY}-9\n", encoding="utf-8")
    monkeypatch.setenv("API_TOKEN", f"{CANARY}-10")

    done = typed("grid", "s.yaml")
    said = {"grid": done.stdout + done.stderr}
    for command, *options in READING:
        result = typed(command, "worker.tuner.db", *options)
        assert "Traceback" not in result.stderr
        said[" ".join((command, *options))] = result.stdout + result.stderr
    written = {
        path.name: path.read_bytes()
        for path in typed.folder.rglob("*")
        if path.is_file() and path.name not in ("s.yaml", "secret.env")
    }

    assert done.returncode == 3, done.stderr
    assert wording("probes.no-login-with-hidden") in done.stderr
    assert {name: text for name, text in said.items() if CANARY in text} == {}
    assert "worker.tuner.db" in written
    assert [name for name, content in written.items() if CANARY.encode() in content] == []
