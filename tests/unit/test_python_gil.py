"""Whether a running Python has a GIL, read from memory laid out as in CPython; and what is kept of it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.adapters.proc.python_runtime import AddressRange, GilSeen, read_gil
from tuner.adapters.virtual.box import VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryStore
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import GIL, GIL_SEEN, Provenance
from tuner.core.domain.records import LaunchRecord
from tuner.reports.ranking.evidence import describe_gil
from tuner.study.study_plan import keep_gil

from ..wording import wording

PID = 4711
BEGIN = 0x1000  #: of _PyRuntime
CEVAL_GIL, ENABLED = 96, 40  #: offsets in an interpreter, and in its GIL


def memory(
    folder: Path,
    *,
    gils: Sequence[int] = (1,),
    interpreters: Sequence[int] = (0,),
    free_threaded: bool = True,
    version: int = 0x030E08F0,
    cookie: bytes = b"xdebugpy",
) -> GilSeen | None:
    """What is seen of a process with *gils* (``enabled`` of each), which *interpreters* have by number."""
    at = {number: 0x8000 + 0x100 * number for number in range(len(gils))}
    content = bytearray(0x10000)

    def put(form: str, address: int, *values: int | bytes) -> None:
        struct.pack_into(form, content, address, *values)

    place = 14 if version >> 16 == 0x030D else 15
    put("=8s2Q", BEGIN, cookie, version, int(free_threaded))
    put("=Q", BEGIN + 5 * 8, 0x200)  # where the runtime has the first interpreter
    put("=Q", BEGIN + 8 * 8, 16)  # where an interpreter has the next one
    put("=3Q", BEGIN + place * 8, CEVAL_GIL, 0, ENABLED)
    first = 0x4000
    put("=Q", BEGIN + 0x200, first if interpreters else 0)
    for number, gil in enumerate(interpreters):
        here = first + 0x200 * number
        put("=Q", here + 16, here + 0x200 if number + 1 < len(interpreters) else 0)
        put("=Q", here + CEVAL_GIL, at[gil])
    for number, enabled in enumerate(gils):
        put("=i", at[number] + ENABLED, enabled)
    (folder / str(PID)).mkdir()
    (folder / str(PID) / "mem").write_bytes(content)
    return read_gil(folder, PID, AddressRange(BEGIN, BEGIN + 0x2000))


@pytest.mark.parametrize("version", [0x030D05F0, 0x030E08F0, 0x030F00F0])
@pytest.mark.parametrize(("enabled", "is_on"), [(0, False), (1, True), (0x7FFFFFFF, True)])
def test_the_flag_of_a_free_threaded_python_tells(
    tmp_path: Path, version: int, enabled: int, is_on: bool
) -> None:
    assert memory(tmp_path, gils=[enabled], version=version) == GilSeen(is_on)


def test_any_other_python_has_a_gil_whatever_stands_where_the_flag_would_be(tmp_path: Path) -> None:
    assert memory(tmp_path, gils=[0], free_threaded=False) == GilSeen(True)


def test_interpreters_with_a_gil_of_their_own_are_counted_and_those_that_share_one_are_not(
    tmp_path: Path,
) -> None:
    found = memory(tmp_path, gils=[1, 1], interpreters=[1, 0, 0], free_threaded=False)

    assert found == GilSeen(True, n_interpreters=2)


@pytest.mark.parametrize(("version", "cookie"), [(0x031000A1, b"xdebugpy"), (0x030E08F0, b"\0" * 8)])
def test_of_a_python_whose_table_is_not_known_nothing_is_said(
    tmp_path: Path, version: int, cookie: bytes
) -> None:
    assert memory(tmp_path, version=version, cookie=cookie) is None


def test_of_a_process_that_is_gone_or_has_no_interpreter_nothing_is_said(tmp_path: Path) -> None:
    assert read_gil(tmp_path, PID, AddressRange(BEGIN, BEGIN + 8)) is None
    assert memory(tmp_path, interpreters=[]) is None


def study(**provenance: str) -> MemoryStore:
    record = virtual_study(VirtualService({Layout(1, 2): 10.0}), window_s=5.0)
    return MemoryStore(replace(record, provenance=Provenance.from_mapping(provenance)))


def launch(variant: str, *, has_gil: bool | None, module: str | None = None) -> LaunchRecord:
    layout = Layout(1, 2, variant)
    return LaunchRecord(0, 0, 1, layout, "host", 0.0, 1.0, 1.0, True, has_gil=has_gil, gil_module=module)


def test_what_a_running_worker_shows_decides_over_what_its_interpreter_alone_says() -> None:
    store, result = study(worker_gil="off"), list[tuple[str, str]]()

    for _ in range(2):
        keep_gil(store, launch("", has_gil=True, module="_fast"), lambda *words: result.append(words))

    assert store.study().provenance.workers.has_gil("") is True
    assert result == [("gil-came-back", wording("launch.gil-came-back"))]
    assert [*describe_gil(store.study())] == [wording("launch.gil-came-back-told")]


def test_a_gil_that_one_launch_showed_stays_and_one_that_nobody_saw_is_not_told() -> None:
    store, result = study(worker_gil="off"), list[tuple[str, str]]()
    for seen in (None, False, True, False):
        keep_gil(store, launch("", has_gil=seen), lambda *words: result.append(words))

    assert store.study().provenance.workers.of_all(GIL_SEEN) == "on"
    assert len(result) == 1


def test_each_variant_has_a_gil_of_its_own_and_one_that_is_expected_is_not_told() -> None:
    store = study(**{f"{GIL}@3.13": "on", f"{GIL}@3.13t": "off"})
    for variant, seen in (("3.13", True), ("3.13t", False)):
        keep_gil(store, launch(variant, has_gil=seen), lambda *_: pytest.fail("told of nothing"))

    workers = store.study().provenance.workers
    assert (workers.has_gil("3.13"), workers.has_gil("3.13t")) == (True, False)
    assert describe_gil(store.study()) == []
