"""What stackwalkers print, in both formats, whole and broken."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner_workers.crash_processor.analysis import analyse
from tuner_workers.crash_processor.spawn import Ended
from tuner_workers.crash_processor.walk_output import (
    WalkOutputError,
    crashing_frames,
    parse_walk_output,
    truncate_crashing_thread,
)

from ..raising import raises
from ..wording import key_of, wording

PIPE = """OS|Linux|6.1.0
CPU|amd64|family 6 model 85|4
GPU|||
Crash|SIGSEGV /SEGV_MAPERR|0x8|1
Module|app||app|ABC0|0x1000|0x1fff|1
Module|libc.so.6|2.36|libc.so.6|DEF0|0x2000|0x2fff|0

0|0|libc.so.6|poll|||0x10
1|0|app|ns::Crash(int)|/src/crash.cpp|42|0x4
1|1|app||||0x99
1|2|||||0x7fff0000
"""


def _ended(stdout: bytes, **how: object) -> Ended:
    facts: dict[str, object] = {"exit_code": 0, "stderr": b"", "cpu_ns": 0, "killed": None, **how}
    return Ended(stdout=stdout, **facts)  # type: ignore[arg-type]


def test_pipe_lines_give_the_fields_of_json() -> None:
    dump = parse_walk_output(PIPE.splitlines())

    assert dump["system_info"] == {
        "os": "Linux", "os_ver": "6.1.0", "cpu_arch": "amd64", "cpu_info": "family 6 model 85", "cpu_count": 4
    }  # fmt: skip
    assert dump["crash_info"] == {"type": "SIGSEGV /SEGV_MAPERR", "address": "0x8", "crashing_thread": 1}
    assert [module["filename"] for module in dump["modules"]] == ["app", "libc.so.6"]
    assert dump["thread_count"] == 2
    assert [thread["frame_count"] for thread in dump["threads"]] == [1, 3]
    first, second, third = crashing_frames(dump)
    assert (first["function"], first["file"], first["line"]) == ("ns::Crash(int)", "/src/crash.cpp", 42)
    assert (second["module"], second["module_offset"]) == ("app", "0x99")
    assert (third["module"], third["offset"]) == (None, "0x7fff0000")


def test_both_formats_give_the_same_signature() -> None:
    dump = parse_walk_output(PIPE.splitlines())
    pipe = analyse(_ended(PIPE.encode()), {}, 100, 10)
    as_json = analyse(_ended(json.dumps(dump).encode()), {}, 100, 10)

    assert pipe.signature == as_json.signature == "ns::Crash"
    assert pipe == as_json


@pytest.mark.parametrize("indent", [None, 2])
def test_json_may_be_on_one_line_or_on_many(indent: int | None) -> None:
    document = {"status": "OK", "threads": []}

    assert parse_walk_output(json.dumps(document, indent=indent).splitlines()) == document


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("", wording("crash-processor.walk-printed-nothing")),
        ("Segmentation fault", wording("crash-processor.walk-no-json", text="Segmentation fault")),
        ('{"status": "OK", "thr', wording("crash-processor.walk-broken-json")),
        ("OS|Linux|1\n1|0|app", wording("crash-processor.walk-cannot-be-read")),
        ("OS|Linux|1\nCrash|SIGSEGV|0x0|first", wording("crash-processor.walk-cannot-be-read")),
        ("OS|Linux|1\n99999999999|0|a|b|c|1|0x0", wording("crash-processor.walk-cannot-be-read")),
    ],
    ids=key_of,
)
def test_what_is_neither_format_is_refused_with_the_reason(output: str, problem: str) -> None:
    with raises(WalkOutputError, problem):
        parse_walk_output(output.splitlines())


def test_deeply_nested_json_is_refused() -> None:
    with pytest.raises(WalkOutputError, match="broken JSON"):
        parse_walk_output(['{"a":' * 100_000])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


FRAMES = st.lists(
    JSON
    | st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("function", "file", "line", "module", "module_offset"), JSON)
    ),
    max_size=4,
)
CRASH_INFO = st.fixed_dictionaries({"crashing_thread": st.just(0), "type": JSON, "address": JSON})
THREADS = st.lists(st.fixed_dictionaries({"frames": JSON | FRAMES}), min_size=1, max_size=2)
FIELDS = {"status": JSON, "crash_info": JSON | CRASH_INFO, "threads": JSON | THREADS, "modules": JSON}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # busy boxes
@given(st.fixed_dictionaries({}, optional=FIELDS))
def test_no_json_document_makes_the_analysis_fail(document: dict[str, object]) -> None:
    analysis = analyse(_ended(json.dumps(document).encode()), {}, 2, 1)

    assert analysis.success == (document.get("status") == "OK")
    assert analysis.signature


def test_a_long_stack_keeps_its_first_and_last_frames() -> None:
    frames = [{"function": f"f{n}"} for n in range(500)]
    dump = {"crash_info": {"crashing_thread": 0}, "threads": [{"frames": frames}]}

    assert truncate_crashing_thread(dump, 100, 10)
    assert [frame["function"] for frame in crashing_frames(dump)] == [
        f"f{n}" for n in [*range(100), *range(490, 500)]
    ]


def test_a_stack_that_fits_is_not_touched() -> None:
    frames = [{"function": f"f{n}"} for n in range(110)]
    dump = {"crash_info": {"crashing_thread": 0}, "threads": [{"frames": frames}]}

    assert not truncate_crashing_thread(dump, 100, 10)
    assert len(crashing_frames(dump)) == 110


def test_no_tail_means_no_tail() -> None:
    dump = {"crash_info": {"crashing_thread": 0}, "threads": [{"frames": [{"frame": n} for n in range(5)]}]}

    assert truncate_crashing_thread(dump, 3, 0)
    assert [frame["frame"] for frame in crashing_frames(dump)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("ended", "note"),
    [
        (_ended(b"", exit_code=1, stderr=b"ERROR x.dmp: too short\n"), "ERROR x.dmp: too short"),
        (_ended(b"", exit_code=-11), "signal SIGSEGV"),
        (_ended(b"", exit_code=-9, killed="kill_timeout"), "killed: kill_timeout"),
        (_ended(b"hello"), "printed no JSON"),
    ],
)
def test_a_stackwalker_that_failed_gives_a_result_with_the_reason(ended: Ended, note: str) -> None:
    analysis = analyse(ended, {}, 100, 10)

    assert not analysis.success
    assert any(note in text for text in analysis.notes)
    assert analysis.signature == wording("crash-processor.signature-no-thread")
