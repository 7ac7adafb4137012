"""The tools of `make sbom` and `make audit`: CycloneDX's own validator, pip-audit without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..unit.test_locks import wheel
from ..wording import start_of, wording

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements"

pytestmark = [pytest.mark.integration]


@pytest.fixture(scope="module")
def audit_python() -> Path:
    """The Python of .venv-audit; without one the test skips at home and fails in CI."""
    folder = ROOT / ".venv-audit"
    if not (folder / ".installed").exists():
        reason = f"no {folder}: make .venv-audit/.installed"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}; CI must test with it")
        pytest.skip(reason)
    return folder / "bin" / "python"


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_the_bill_is_valid_by_cyclonedx_own_schema_and_a_wrong_one_is_not(
    audit_python: Path, tmp_path: Path
) -> None:
    built = wheel(tmp_path, b"\x7fELF, static")
    written = run(sys.executable, REQUIREMENTS / "sbom.py", built, SOURCE_DATE_EPOCH="1800000000")
    assert written.returncode == 0, written.stderr
    bill, wrong = tmp_path / "tuner.cdx.json", tmp_path / "wrong.cdx.json"
    bill.write_text(written.stdout, encoding="utf-8")
    document = json.loads(written.stdout)
    document["components"][0]["scope"] = "perhaps"
    wrong.write_text(json.dumps(document), encoding="utf-8")

    right = run(audit_python, REQUIREMENTS / "sbom_is_valid.py", bill)
    refused = run(audit_python, REQUIREMENTS / "sbom_is_valid.py", wrong)

    assert (right.returncode, right.stdout) == (0, f"{bill}: CycloneDX 1.6\n")
    assert refused.returncode == 1
    assert wording("packages.not-one-of") in refused.stderr


def test_a_bill_without_a_wheel_or_a_date_is_refused_in_two_lines(tmp_path: Path) -> None:
    nothing = run(sys.executable, REQUIREMENTS / "sbom.py", tmp_path / "no.whl", SOURCE_DATE_EPOCH="1")
    dateless = run(
        sys.executable, REQUIREMENTS / "sbom.py", wheel(tmp_path, b"\x7fELF"), SOURCE_DATE_EPOCH="today"
    )

    assert (nothing.returncode, nothing.stderr.splitlines()[0]) == (
        2,
        wording("packages.name-one-wheel"),
    )
    assert dateless.returncode == 2
    assert "SOURCE_DATE_EPOCH" in dateless.stderr


def test_an_audit_that_reaches_nobody_says_so_and_is_no_success(audit_python: Path, tmp_path: Path) -> None:
    nobody = "http://127.0.0.1:9"  # discard: nothing listens there
    unreachable = {"HTTPS_PROXY": nobody, "https_proxy": nobody, "NO_PROXY": "", "no_proxy": ""}
    nothing_kept = {"PIP_CACHE_DIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}

    audited = run(audit_python, REQUIREMENTS / "audit.py", "build", **unreachable, **nothing_kept)

    assert audited.returncode == 3, audited.stdout
    assert wording("packages.no-advisories") in start_of(audited.stdout)
