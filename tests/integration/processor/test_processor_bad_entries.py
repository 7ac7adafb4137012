"""A dump with bad entries, from the spool to the processed crash: the real stackwalker, and what it notes."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from uuid import UUID

import pytest

from tuner_workers.crash_processor.stackwalk import find_stackwalker
from tuner_workers.crash_processor.synthetic.minidump import (
    MODULE_LIST,
    Dump,
    ExceptionRecord,
    LoadedModule,
    Memory,
    System,
    Thread,
    amd64_context,
    rsds,
    write_minidump,
)

from ...wording import wording
from .conftest import Bed

pytestmark = pytest.mark.integration

APP, STACK, OUTSIDE = 0x400000, 0x10_0000_0000, 0x7FFF_FFF0
NAME_AT, MODULE_BYTES = 20, 108


def processed(bed: Bed, dump: bytes, symbols: Path) -> dict[str, object]:
    """The processed crash of one dump."""
    folder = bed.root.parent / "dumps"
    folder.mkdir()
    (folder / "one.dmp").write_bytes(dump)
    (folder / "one.json").write_text(json.dumps({"uuid": f"{UUID(int=1)}", "ProductName": "App"}))
    assert bed.typed("fill", "--dumps", str(folder)).returncode == 0
    bed.walker = Path(find_stackwalker(None))
    bed.run("--number-of-threads", "1", "--processor-symbols-pathname-list", str(symbols))
    return bed.result(f"{UUID(int=1)}")


def notes_of(result: dict[str, object]) -> str:
    notes = result["processor_notes"]
    assert isinstance(notes, list)
    return "\n".join(notes)


def test_a_bad_entry_leaves_the_signature_and_is_in_the_notes(bed: Bed, tmp_path: Path) -> None:
    thread = Thread(1, Memory(STACK, bytes(64)), amd64_context({"rip": APP + 0x1010, "rsp": STACK}))
    modules = [LoadedModule(f"/opt/{name}", APP + 0x10000 * i, 0x10000, rsds(UUID(int=i + 1), 0, name))
               for i, name in enumerate(("app", "lib", "other"))]  # fmt: skip
    data = bytearray(
        write_minidump(
            Dump(System(), [thread], modules, ExceptionRecord(1, 11, 1, 0, context=thread.context))
        )
    )
    n_streams, directory = struct.unpack_from("<II", data, 8)
    entries = [struct.unpack_from("<III", data, directory + 12 * i) for i in range(n_streams)]
    listed = next(rva for kind, _, rva in entries if kind == MODULE_LIST) + 4
    for i in (1, 2):
        struct.pack_into("<I", data, listed + MODULE_BYTES * i + NAME_AT, OUTSIDE)
    debug_id = f"{UUID(int=1).hex.upper()}0"
    symbols = tmp_path / "symbols" / "app" / debug_id / "app.sym"
    symbols.parent.mkdir(parents=True)
    symbols.write_text(f"MODULE Linux x86_64 {debug_id} app\nFUNC 1000 100 0 main_loop()\n")

    result = processed(bed, bytes(data), tmp_path / "symbols")

    assert (result["success"], result["signature"]) == (True, "main_loop")
    assert wording("crash-processor.unreadable-module-names", n=2) in notes_of(result)


@pytest.mark.parametrize("name", ["good", "surr", "surr2", "rva"])
def test_the_dumps_of_a_reported_fault_have_one_signature(shared_data: Path, bed: Bed, name: str) -> None:
    case = shared_data / "cases" / "dump-one-bad-module-name"

    result = processed(bed, (case / f"{name}.dmp").read_bytes(), case / "symbols")

    assert (result["success"], result["signature"]) == (True, "main_loop")
    assert (wording("crash-processor.unreadable-module-name") in notes_of(result)) == (name != "good")
