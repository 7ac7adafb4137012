"""The stackwalkers under test, and small scenes for them: a handful of stack words and a few symbol lines.

`crash-stackwalk` is ours. Where rust-minidump's `minidump-stackwalk` is on the PATH, everything that both can
do is asked of it as well: so the known answers are held against an independent implementation.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tuner_workers.crash_processor.synthetic import minidump
from tuner_workers.crash_processor.synthetic.minidump import (
    Dump,
    LoadedModule,
    Memory,
    System,
    Thread,
    amd64_context,
    write_minidump,
)

APP, LIB = 0x400000, 0x500000  #: bases of the two modules of a scene; both are 64 kB
MODULE_SIZE = 0x10000
STACK = 0x10_0000_0000
THREAD_ID = 77
TIMEOUT_S = 60
REFERENCE = "minidump-stackwalk"
APP_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
_PLATFORMS = {"linux": minidump.LINUX, "windows": minidump.WINDOWS, "macos": minidump.MACOS}


@dataclass(frozen=True)
class Walker:
    """A stackwalker that prints rust-minidump's JSON."""

    program: str
    folder: Path  #: scratch space of this test

    def run(self, dump: Path, *stores: Path) -> subprocess.CompletedProcess[bytes]:
        """Walk a dump with the symbols in *stores*."""
        command = [self.program, "--json", str(dump), *map(str, stores)]
        if Path(self.program).name == REFERENCE:
            command = [self.program, "--json"]
            command += [part for store in stores for part in ("--symbols-path", str(store))]
            command += ["--", str(dump)] if not stores else [str(dump)]
        return subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)

    def json(self, dump: Path | bytes, *stores: Path) -> dict[str, Any]:
        """What it says about a dump, which must be readable."""
        if isinstance(dump, bytes):
            path = self.folder / "scene.dmp"
            path.write_bytes(dump)
            dump = path
        done = self.run(dump, *stores)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


def _find(name: str) -> str | None:
    return shutil.which(
        name, path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    )


@pytest.fixture(scope="session")
def crash_stackwalk() -> str:
    """The installed command."""
    program = _find("crash-stackwalk")
    assert program is not None, "crash-stackwalk is not installed beside this Python nor on the PATH"
    return program


@pytest.fixture(params=["crash-stackwalk", *([REFERENCE] if _find(REFERENCE) else [])])
def walker(request: pytest.FixtureRequest, tmp_path: Path) -> Walker:
    """Every stackwalker at hand: ours, and the reference where it is installed."""
    program = _find(request.param) or request.getfixturevalue("crash_stackwalk")
    return Walker(program, tmp_path)


@pytest.fixture
def our_walker(crash_stackwalk: str, tmp_path: Path) -> Walker:
    """Ours alone, for what the reference does differently or not at all."""
    return Walker(crash_stackwalk, tmp_path)


def differences(expected: Any, got: Any, where: str = "") -> Iterator[str]:
    """What *got* lacks or has otherwise; keys that *expected* does not mention are free."""
    if isinstance(expected, Mapping):
        if not isinstance(got, Mapping):
            yield f"{where}: expected an object, got {got!r}"
            return
        for key, value in expected.items():
            if key not in got:
                yield f"{where}.{key} is missing"
            else:
                yield from differences(value, got[key], f"{where}.{key}")
    elif isinstance(expected, list):
        if not isinstance(got, list) or len(got) != len(expected):
            yield f"{where}: expected {len(expected)} items, got {len(got or ())}"
        for index, (one, other) in enumerate(zip(expected, got or (), strict=False)):
            yield from differences(one, other, f"{where}[{index}]")
    elif expected != got:
        yield f"{where}: expected {expected!r}, got {got!r}"


@pytest.fixture
def assert_contains() -> Callable[[Any, Any], None]:
    """Fails with the first few differences between what is known and what was said."""

    def check(expected: Any, got: Any) -> None:
        found = list(differences(expected, got))
        assert not found, "\n".join(found[:10])

    return check


def frame_line(frame: Mapping[str, Any]) -> str:
    """A frame in a few words: "scan app+0x1024 main", "context 0x0"."""
    if frame["module"] is None:
        return f"{frame['trust']} {int(frame['offset'], 16):#x}"
    return (
        f"{frame['trust']} {frame['module']}+{int(frame['module_offset'], 16):#x} {frame['function'] or '?'}"
    )


@dataclass(frozen=True)
class Scene:
    """Two modules and one thread: "app" at 0x400000 with the given symbols, "lib" at 0x500000 without any.

    `words` lie on the stack from rsp upwards; rsp is STACK unless `registers` says otherwise.
    """

    words: Sequence[int]
    registers: Mapping[str, int]
    symbols: str | None = None  #: of app, without the MODULE line; None: no symbol file
    os_name: str = "linux"
    tail_bytes: int = 0  #: the stack memory ends so many bytes behind the last word

    def dump(self) -> bytes:
        """The scene as a minidump."""
        data = b"".join(word.to_bytes(8, "little") for word in self.words) + bytes(self.tail_bytes)
        context = amd64_context({"rsp": STACK, **self.registers})
        return write_minidump(
            Dump(
                System(_PLATFORMS[self.os_name]),
                [Thread(THREAD_ID, Memory(STACK, data), context)],
                [scene_module("app", APP), scene_module("lib", LIB, UUID(int=1))],
            )
        )

    def write_symbols(self, root: Path) -> None:
        """Put app's symbols into a store."""
        if self.symbols is not None:
            write_symbols(root, "app", self.symbols)


def scene_module(name: str, base: int, identity: UUID = APP_ID) -> LoadedModule:
    """A module of 64 kB with the name and debug id that `write_symbols` files symbols under."""
    return LoadedModule(f"/opt/{name}", base, MODULE_SIZE, minidump.rsds(identity, 0, name))


def write_symbols(root: Path, name: str, text: str, identity: UUID = APP_ID) -> Path:
    """Put one symbol file into a store; *text* comes without its MODULE line."""
    debug_id = f"{identity.hex.upper()}0"
    path = root / name / debug_id / f"{name}.sym"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"MODULE Linux x86_64 {debug_id} {name}\n{text}", encoding="utf-8")
    return path


@pytest.fixture
def walk(walker: Walker) -> Callable[..., list[str]]:
    """Walks a scene and gives its frames in a few words each."""

    def walk_scene(scene: Scene) -> list[str]:
        store = walker.folder / "symbols"
        store.mkdir(exist_ok=True)
        scene.write_symbols(store)
        answer = walker.json(scene.dump(), store)
        return [frame_line(frame) for frame in answer["threads"][0]["frames"]]

    return walk_scene
