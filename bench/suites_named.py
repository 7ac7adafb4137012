"""Suites of the commands in bench/: tuner's own by name, others by their file."""

from __future__ import annotations

import sys
from pathlib import Path

from tuner.config.suite import read_suite
from tuner.core.errors import ConfigError
from tuner.core.search.own_suites import OWN_SUITES, own_suite
from tuner.core.search.suite import Suite


def suite_named(text: str) -> Suite:
    """The suite in the JSON file *text*, or tuner's own of that name; without either the program ends."""
    try:
        return read_suite(Path(text)) if text.endswith(".json") else own_suite(text)
    except KeyError:
        names = ", ".join(OWN_SUITES)
        problem = f"{text!r} is no suite: tuner's own are {names}; others are files (NAME.json)"
    except ConfigError as error:
        problem = f"{error.problem}. {error.hint or ''}".rstrip()
    print(f"Error: {problem}", file=sys.stderr)
    raise SystemExit(2)
