"""Real dumps, against what rust-minidump 0.27.0 printed for them, with symbols and without."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Walker

pytestmark = pytest.mark.integration

AMD64 = [
    "linux_divide_by_zero",
    "linux_executable_heap",
    "linux_inside_module_exe_region1",
    "linux_jmp_to_0",
    "linux_null_dereference",
    "linux_null_read_av",
    "linux_outside_module",
    "linux_overflow",
    "linux_raise_sigabrt",
    "linux_stack_pointer_in_module",
    "linux_write_to_under_4k",
    "simple-crashpad",
    "tiny-exe-with-cet-xsave",
]
X86 = ["ascii_read_av", "null_write_av"]  # no symbols here, hence no STACK WIN, which we do not read
UNREADABLE = ["invalid-range", "microdump-arm64"]
FRAME_KEYS = ("module", "module_offset", "function", "file", "trust", "offset", "frame")
MODULE_KEYS = ("filename", "base_addr", "end_addr", "debug_file", "debug_id")
SYSTEM_KEYS = ("os", "os_ver", "cpu_arch", "cpu_count")


@pytest.fixture(scope="session")
def real_dumps(shared_data: Path) -> Path:
    return shared_data / "minidumps"


def what_matters(answer: dict[str, Any]) -> dict[str, Any]:
    """The part of the reference's answer that ours must repeat."""

    def frame_of(frame: dict[str, Any]) -> dict[str, Any]:
        keys = FRAME_KEYS if frame.get("inlines") else (*FRAME_KEYS, "line")
        return {key: frame[key] for key in keys}

    return {
        "status": answer["status"],
        "system_info": {key: answer["system_info"][key] for key in SYSTEM_KEYS},
        "crash_info": {key: answer["crash_info"][key] for key in ("type", "address", "crashing_thread")},
        "thread_count": answer["thread_count"],
        "threads": [
            {
                "thread_id": thread["thread_id"],
                "frame_count": thread["frame_count"],
                "frames": [frame_of(frame) for frame in thread["frames"]],
            }
            for thread in answer["threads"]
        ],
        "modules": [{key: module[key] for key in MODULE_KEYS} for module in answer["modules"]],
        "main_module": answer["main_module"],
    }


@pytest.mark.parametrize("name", [*AMD64, *X86])
@pytest.mark.parametrize("folder", ["expected", "expected-nosym"])
def test_a_real_dump_gives_the_references_answer(
    real_dumps: Path, walker: Walker, assert_contains: Callable[[Any, Any], None], name: str, folder: str
) -> None:
    reference = json.loads((real_dumps / folder / f"{name}.json").read_text())
    stores = [real_dumps / "symbols"] if folder == "expected" else []

    answer = walker.json(real_dumps / "dumps" / f"{name}.dmp", *stores)

    assert_contains(what_matters(reference), answer)


@pytest.mark.parametrize("name", UNREADABLE)
def test_bad_input_is_refused_with_an_error(real_dumps: Path, our_walker: Walker, name: str) -> None:
    path = real_dumps / "dumps" / f"{name}.dmp"

    done = our_walker.run(path, real_dumps / "symbols")

    assert done.returncode == 1
    assert done.stdout == b""
    error = done.stderr.decode()
    assert error.startswith("ERROR ")
    assert str(path) in error
    assert error.count("\n") == 1


def test_every_dump_beside_the_checkout_is_tried(real_dumps: Path) -> None:
    found = {path.stem for path in (real_dumps / "dumps").glob("*.dmp")}

    assert found == {*AMD64, *X86, *UNREADABLE}
