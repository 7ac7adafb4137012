"""The pages that are made from the code are what the code says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tuner.cli import COMMANDS
from tuner.core import errors
from tuner.core.errors import EXIT_CODES, ConfigError, MeasurementError, StaleReport, TunerError
from tuner.services.record import Arguments, Command, Service

ROOT = Path(__file__).resolve().parents[2]


def test_the_pages_of_the_reference_are_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "reference" / "make.py", "--check"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_has_a_section_with_its_example() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")

    assert re.findall(r"^## tuner (\S+)$", page, re.MULTILINE) == [command.name for command in COMMANDS]
    assert page.count("\ntuner ") >= len(COMMANDS)


def test_what_others_may_call_of_a_record_is_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "public.md").read_text(encoding="utf-8")

    for method in (Command.option, Command.has, Arguments.by_flags, Service.form):
        assert f"\n    {method.__qualname__}(self, " in page


def test_every_exit_code_that_is_used_is_in_the_table() -> None:
    reported = {one.code for one in EXIT_CODES}
    used = {code for name, code in vars(errors).items() if name.startswith("EXIT_") and name != "EXIT_CODES"}

    assert used == reported
    assert {error.exit_code for error in (TunerError, ConfigError, MeasurementError, StaleReport)} < reported
    assert [one.code for one in EXIT_CODES] == sorted(reported)
