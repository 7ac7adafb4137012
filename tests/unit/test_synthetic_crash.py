"""Synthetic crashes: equal for equal seeds, varied between seeds, and true to real crash reports' shape."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from hashlib import sha256

import pytest

from tuner_workers.crash_processor.synthetic import SyntheticCrash, World, make_crash, make_world

from ..raising import raises
from ..wording import wording

SYSTEMS = ("linux", "windows", "macos")
N_CRASHES = 150


@cache
def world(os_name: str) -> World:
    return make_world(7, symbols_bytes=100_000, os_name=os_name)


@cache
def crashes(os_name: str) -> list[SyntheticCrash]:
    return [make_crash(seed, world(os_name)) for seed in range(N_CRASHES)]


def crashing_frames(crash: SyntheticCrash) -> list[dict[str, object]]:
    frames: list[dict[str, object]] = crash.expected["threads"][
        crash.expected["crash_info"]["crashing_thread"]
    ]["frames"]
    return frames


@pytest.mark.parametrize("os_name", SYSTEMS)
def test_the_same_seeds_give_the_same_world_and_crash(os_name: str) -> None:
    again = make_world(7, symbols_bytes=100_000, os_name=os_name)

    assert [module.symbols and module.symbols.text for module in again.modules] == [
        module.symbols and module.symbols.text for module in world(os_name).modules
    ]
    for seed in (0, 1, 2):
        assert make_crash(seed, again) == make_crash(seed, world(os_name))


def test_the_bytes_are_those_of_the_day_this_was_written() -> None:
    """Of every Python, too. A new digest means that old corpora cannot be made again: note it as a change."""
    digest = sha256()
    for os_name in SYSTEMS:
        for module in world(os_name).modules:
            digest.update(module.symbols.text.encode() if module.symbols else b"-")
        for crash in crashes(os_name)[:20]:
            digest.update(crash.dump)
            digest.update(repr(crash.raw_crash).encode())

    assert digest.hexdigest() == "617f90e6eeff544788e5de6bf73011ffbbeb4d8b92ffed71ab549554637c1f51"


@pytest.mark.parametrize("os_name", SYSTEMS)
def test_other_seeds_give_other_crashes(os_name: str) -> None:
    assert len({crash.dump for crash in crashes(os_name)}) == N_CRASHES
    assert len({crash.raw_crash["uuid"] for crash in crashes(os_name)}) == N_CRASHES


@pytest.mark.parametrize("os_name", SYSTEMS)
def test_threads_and_frames_vary_within_bounds(os_name: str) -> None:
    n_threads = [len(crash.expected["threads"]) for crash in crashes(os_name)]
    depths = [len(crashing_frames(crash)) for crash in crashes(os_name)]

    assert min(n_threads) == 1
    assert 15 <= max(n_threads) <= 21
    assert min(depths) <= 15
    assert max(depths) == 60


@pytest.mark.parametrize("os_name", SYSTEMS)
def test_frames_are_found_in_every_way(os_name: str) -> None:
    trusts = Counter(
        frame["trust"]
        for crash in crashes(os_name)
        for thread in crash.expected["threads"]
        for frame in thread["frames"]
    )

    assert set(trusts) == {"context", "cfi", "frame_pointer", "scan"}
    assert min(trusts.values()) >= 50


@pytest.mark.parametrize("os_name", SYSTEMS)
def test_a_few_signatures_make_up_most_crashes(os_name: str) -> None:
    tops = Counter(
        tuple(frame["function"] or frame["module"] for frame in crashing_frames(crash)[:4])
        for crash in crashes(os_name)
    )
    counts = [count for _, count in tops.most_common()]

    assert 10 <= len(counts) <= 26
    assert counts[0] >= 0.15 * N_CRASHES
    assert sum(counts[:8]) >= 0.55 * N_CRASHES


@pytest.mark.parametrize("os_name", SYSTEMS)
def test_crashes_die_of_many_causes(os_name: str) -> None:
    reasons = {crash.expected["crash_info"]["type"] for crash in crashes(os_name)}

    assert len(reasons) >= 5


@pytest.mark.parametrize("os_name", SYSTEMS)
def test_some_modules_have_no_symbols_and_some_frames_no_module(os_name: str) -> None:
    frames = [frame for crash in crashes(os_name) for frame in crashing_frames(crash)]

    assert any(frame["module"] is None for frame in frames)
    assert any(frame["module"] is not None and frame["function"] is None for frame in frames)
    assert any(frame.get("file") for frame in frames)


def test_raw_crashes_are_text_with_socorros_keys() -> None:
    for crash in crashes("linux"):
        raw_crash = crash.raw_crash
        assert {"ProductName", "Version", "BuildID", "ReleaseChannel", "CrashTime", "ProcessType"} <= set(
            raw_crash
        )
        assert len(raw_crash) >= 20
        assert all(isinstance(value, str) and value for value in raw_crash.values())
        assert re.fullmatch(
            r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{5}0\d{6}", raw_crash["uuid"]
        )
        assert int(raw_crash["StartupTime"]) < int(raw_crash["CrashTime"])


@pytest.mark.parametrize("n_modules", [5, 6, 9])
def test_a_world_has_as_many_modules_as_asked(n_modules: int) -> None:
    modules = make_world(1, symbols_bytes=20_000, n_modules=n_modules).modules

    assert len(modules) == n_modules
    ends = [(module.loaded.base, module.loaded.base + module.loaded.size) for module in modules]
    assert all(one[1] <= other[0] for one, other in zip(sorted(ends), sorted(ends)[1:], strict=False))
    assert len({module.debug_id for module in modules}) == n_modules


def test_a_world_needs_five_modules_and_a_system_that_exists() -> None:
    with raises(ValueError, wording("crash-processor.too-few-modules")):
        make_world(1, n_modules=4)
    with raises(ValueError, wording("crash-processor.no-such-system")):
        make_world(1, os_name="beos")


def test_symbols_are_filed_as_a_symbol_store_files_them() -> None:
    paths = {module.role: str(module.symbol_path) for module in world("windows").modules}
    engine = world("windows").engine

    assert paths["engine"] == f"wolfcore.pdb/{engine.debug_id}/wolfcore.sym"
    assert engine.symbols is not None
    assert engine.symbols.text.startswith(f"MODULE windows x86_64 {engine.debug_id} wolfcore.pdb\n")
