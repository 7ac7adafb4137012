"""Files of others that say what nothing can run: one line, no traceback, no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.cli import run

COMPOSE = "services:\n  web:\n    image: x\n    command: gunicorn a:b\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("compose.yaml", COMPOSE + '    volumes: ["~nosuchuser/x:/data"]\n'),
        ("compose.yaml", COMPOSE + "    extends: {service: [x]}\n"),
        ("compose.yaml", COMPOSE.replace("gunicorn a:b", "gunicorn ${PW:=hunter2}")),
        ("Procfile", "SECRET_KEY=hunter2\n"),
        ("web.service", "[Service]\nExecStart=/bin/x\nhunter2\n"),
        ("Procfile", "web: exec -a web gunicorn a:b\n"),
        ("Procfile", "web: cd -P /srv && gunicorn a:b\n"),
    ],
)
def test_what_cannot_be_read_is_an_error_of_two_lines_that_prints_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)

    code = run(["init", "--from", str(tmp_path / name)])

    printed = capsys.readouterr().err
    assert code == 2
    assert printed.startswith("Error: ")
    assert "hunter2" not in printed


def test_an_escape_that_is_no_character_stays_as_it_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = tmp_path / "web.service"
    unit.write_text("[Service]\nExecStart=/bin/gunicorn \\UFFFFFFFF\n")

    assert run(["init", "--from", str(unit)]) == 0
    assert "UFFFFFFFF" in capsys.readouterr().out
