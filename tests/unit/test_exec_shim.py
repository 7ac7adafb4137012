"""The shim that supervisord starts in place of every command: how it reads its job."""

from __future__ import annotations

import _json
import importlib
import json
from collections.abc import Iterator
from types import ModuleType

import pytest

from tuner.adapters.supervisord import exec_shim

JOB = {"argv": ["a", "\u00e9"], "limits": [[1, 2, 3]], "user": None, "umask": 18, "own_session": True}


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The shim on a Python whose scanner reads one attribute more than any Python does today."""
    make_scanner = _json.make_scanner

    def demanding(context: object) -> object:
        if isinstance(context, type):
            raise AttributeError("type object '_Plain' has no attribute 'another_hook'")
        return make_scanner(context)

    monkeypatch.setattr(_json, "make_scanner", demanding)
    yield importlib.reload(exec_shim)
    monkeypatch.undo()
    importlib.reload(exec_shim)


def test_a_job_is_read_as_it_was_written() -> None:
    assert exec_shim._PARSE(json.dumps(JOB), 0)[0] == JOB


def test_a_job_is_read_by_json_itself_where_the_scanner_asks_for_more(newer: ModuleType) -> None:
    assert newer._PARSE(json.dumps(JOB), 0)[0] == JOB
