"""A service's command without -- before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.cli import run

from ..wording import wording


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("grid gunicorn app:app", "grid -- gunicorn app:app"),
        ("grid gunicorn", "grid -- gunicorn"),
        ("grid --window 10s gunicorn app:app -w 4", "grid --window 10s -- gunicorn app:app -w 4"),
        ("grid --service gunicorn ./run.sh", "grid --service gunicorn -- ./run.sh"),
        ("grid PORT=1 gunicorn app:app", "grid -- PORT=1 gunicorn app:app"),
        ("init uv run celery", "init -- uv run celery"),
        ("doctor python3 worker.py", "doctor -- python3 worker.py"),
    ],
)
def test_what_to_type_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    meant: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)

    assert run(typed.split()) == 2

    problem, hint = capsys.readouterr().err.splitlines()
    assert wording("command-line.missing-dashes") in problem
    assert hint == wording("command-line.put-dashes", meant=meant)


@pytest.mark.parametrize("typed", ["grid study.yaml", "grid --service gunicorn study.yaml", "grid gunicorn"])
def test_a_config_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gunicorn").write_text("no: config\n")

    assert run(typed.split()) == 2

    assert "--" not in capsys.readouterr().err
