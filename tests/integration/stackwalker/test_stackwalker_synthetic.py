"""Whole synthetic crashes: what the stackwalker must print is known for every frame."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tuner_workers.crash_processor.synthetic import SyntheticCrash, World, make_crash, make_world

from .conftest import LIB, TIMEOUT_S, Scene, Walker, frame_line

pytestmark = pytest.mark.integration

N_SEEDS = 60
SMALL, LARGE = 100_000, 4_000_000

Check = Callable[[Any, Any], None]


@pytest.fixture(scope="module", params=["linux", "windows", "macos"])
def world_and_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[World, Path]:
    world = make_world(11, symbols_bytes=SMALL, os_name=request.param)
    store = tmp_path_factory.mktemp(request.param)
    world.write_symbols(store)
    return world, store


def crashes(world: World) -> Iterator[SyntheticCrash]:
    return (make_crash(seed, world) for seed in range(N_SEEDS))


def test_every_crash_gives_its_known_answer(
    world_and_store: tuple[World, Path], walker: Walker, assert_contains: Check
) -> None:
    world, store = world_and_store
    for crash in crashes(world):
        assert_contains(crash.expected, walker.json(crash.dump, store))


def test_both_formats_tell_the_same_frames(world_and_store: tuple[World, Path], our_walker: Walker) -> None:
    world, store = world_and_store
    for crash in crashes(world):
        path = our_walker.folder / "crash.dmp"
        path.write_bytes(crash.dump)
        command = [our_walker.program, "--pipe", str(path), str(store)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
        header, frames = done.stdout.split("\n\n", 1)
        info, threads = crash.expected["crash_info"], crash.expected["threads"]
        order = sorted(
            range(len(threads)), key=lambda number: number != info["crashing_thread"]
        )  # it comes first
        expected = [pipe_line(number, frame) for number in order for frame in threads[number]["frames"]]
        got = [line.rsplit("|", 1)[0] for line in frames.splitlines()]

        assert [hide_inlined(line, wanted) for line, wanted in zip(got, expected, strict=True)] == expected
        assert f"\nCrash|{info['type']}|{int(info['address'], 16):#x}|{info['crashing_thread']}\n" in header
        modules = [line.split("|") for line in header.splitlines() if line.startswith("Module|")]
        assert [(fields[1], fields[3], fields[4]) for fields in modules] == [
            (module["filename"], module["debug_file"], module["debug_id"])
            for module in crash.expected["modules"]
        ]


def pipe_line(thread: int, frame: dict[str, Any]) -> str:
    """A frame as Breakpad's machine-readable format has it, without the offset at its end."""
    source = ("?", "?") if "file" not in frame else (frame["file"] or "", frame["line"] or "")
    fields = (thread, frame["frame"], frame["module"] or "", frame["function"] or "", *source)
    return "|".join(map(str, fields))


def hide_inlined(line: str, wanted: str) -> str:
    """Where something was inlined the source line is not compared."""
    return "|".join((*line.split("|")[:-2], "?", "?")) if wanted.endswith("|?|?") else line


def test_large_symbol_files_give_the_same_kind_of_answer(
    walker: Walker, tmp_path: Path, assert_contains: Check
) -> None:
    world = make_world(5, symbols_bytes=LARGE)
    world.write_symbols(tmp_path)
    for seed in range(3):
        crash = make_crash(seed, world)
        assert_contains(crash.expected, walker.json(crash.dump, tmp_path))


def test_without_symbols_the_same_crashes_are_still_walked(
    world_and_store: tuple[World, Path], our_walker: Walker, assert_contains: Check
) -> None:
    world, _ = world_and_store
    for crash in crashes(world):
        answer = our_walker.json(crash.dump)

        assert_contains(
            {key: crash.expected[key] for key in ("crash_info", "modules", "thread_count")}, answer
        )
        for expected, thread in zip(crash.expected["threads"], answer["threads"], strict=True):
            frames = [frame["offset"] for frame in thread["frames"]]
            assert frames[:1] == [frame["offset"] for frame in expected["frames"][:1]]
            assert all(frame["function"] is None for frame in thread["frames"])


@pytest.mark.parametrize(("n_words", "is_whole"), [(1023, True), (1024, False), (1500, False)])
def test_a_deep_recursion_is_walked_to_1024_frames_and_said_to_continue(
    our_walker: Walker, n_words: int, is_whole: bool
) -> None:
    path = our_walker.folder / "deep.dmp"
    path.write_bytes(Scene([LIB + 0x150] * n_words, {"rip": LIB + 0x10}).dump())
    done = our_walker.run(path)

    frames = json.loads(done.stdout)["threads"][0]["frames"]
    assert len(frames) == 1024
    assert frame_line(frames[-1]) == "scan lib+0x14f ?"
    warning = f"WARNING {path}: too much to walk, what is later is left out\n"
    assert done.stderr.decode() == ("" if is_whole else warning)
