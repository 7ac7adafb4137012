"""gunicorn behind what starts it in production, and where its configuration file has it listen."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..contract.http_service import self_signed
from ..ports import free_port
from . import http
from .measured import ALONE, tuner, windows_of

pytestmark = [pytest.mark.integration, pytest.mark.services]
SHORT = ("grid", *ALONE, "--window", "3s", "--warmup", "1s", "--study", "s.tuner.db", "--set", "clients=8")


def check_measured(folder: Path, said: str) -> None:
    """Workers were found, as many as the layouts have, and requests were answered."""
    assert "wrong-layout" not in said
    assert "launch-failed" not in said
    windows = windows_of(folder / "s.tuner.db")
    assert {str(window.layout) for window in windows} == {"2x2", "1x2"}
    assert all(window.n_done > 0 and not window.n_failed for window in windows)


def test_an_address_and_a_certificate_in_a_config_file_are_found(tmp_path: Path, services_venv: Path) -> None:
    certificate, key = self_signed(tmp_path)
    port = free_port()
    (tmp_path / "gunicorn.conf.py").write_text(
        f"bind, certfile, keyfile = '127.0.0.1:{port}', '{certificate}', '{key}'\n"
    )
    (tmp_path / "app.py").write_text(http.APP)

    said = tuner(tmp_path, services_venv, *SHORT, "--layouts", "2x2,1x2", "--", "gunicorn", "app:app")

    check_measured(tmp_path, said)
    assert f"requests go to https://127.0.0.1:{port}, where the service listens" in said


@pytest.mark.parametrize("is_script", [False, True], ids=["text", "script"])
def test_a_service_behind_others_is_measured(tmp_path: Path, services_venv: Path, is_script: bool) -> None:
    (tmp_path / "app.py").write_text(http.APP)
    own = f"gunicorn -w 4 -b 127.0.0.1:{free_port()} app:app"
    (tmp_path / "run.sh").write_text(f'#!/bin/sh\nset -e\nif true; then :; fi\n{own} "$@"\n')
    (tmp_path / "run.sh").chmod(0o755)
    command = "./run.sh" if is_script else f"timeout 600 nice -n 1 bash -c 'cd . && A=1 {own} \"$@\"' x"

    said = tuner(tmp_path, services_venv, *SHORT, "--layouts", "2x2,1x2", "--command", command)

    check_measured(tmp_path, said)
