"""deploy/kubernetes, held against the schemas of Kubernetes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.services]
JOB = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "job.yaml"


def test_the_job_is_one_that_kubernetes_takes(services_venv: Path) -> None:
    words = [services_venv / "bin" / "kubernetes-validate", "--strict", JOB]
    done = subprocess.run(words, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count(" passed ") == 2
