"""The command line: options, streams, exit codes, and the knobs that set its share of CPU."""

from __future__ import annotations

import json
import resource
import subprocess
from pathlib import Path

import pytest

from tuner_workers.crash_processor.synthetic import make_crash, make_world

from ...wording import wording
from .conftest import TIMEOUT_S

pytestmark = pytest.mark.integration

PASSES_THAT_TAKE_MINUTES = 10_000_000


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A dump and the store with its symbols."""
    folder = tmp_path_factory.mktemp("crash")
    world = make_world(9, symbols_bytes=60_000)
    world.write_symbols(folder / "symbols")
    (folder / "crash.dmp").write_bytes(make_crash(2, world).dump)
    return folder / "crash.dmp", folder / "symbols"


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def test_json_is_the_default(crash_stackwalk: str, crash: tuple[Path, Path]) -> None:
    plain, chosen = run(crash_stackwalk, *crash), run(crash_stackwalk, "--json", *crash)

    assert plain.returncode == 0
    assert plain.stdout == chosen.stdout
    assert json.loads(plain.stdout)["status"] == "OK"


def test_the_pipe_format_starts_with_system_and_crash(crash_stackwalk: str, crash: tuple[Path, Path]) -> None:
    lines = run(crash_stackwalk, "--pipe", *crash).stdout.splitlines()

    assert [line.split("|")[0] for line in lines[:4]] == ["OS", "CPU", "Crash", "Module"]
    assert lines[1].startswith("CPU|amd64|")


@pytest.mark.parametrize("output_format", ["--json", "--pipe"])
def test_more_passes_print_the_same(
    crash_stackwalk: str, crash: tuple[Path, Path], output_format: str
) -> None:
    once = run(crash_stackwalk, output_format, *crash)

    for passes in (1, 2, 7, 40):
        more = run(crash_stackwalk, output_format, "--passes", passes, *crash)
        assert (more.returncode, more.stdout, more.stderr) == (0, once.stdout, "")


def test_answers_are_the_same_every_time(crash_stackwalk: str, crash: tuple[Path, Path]) -> None:
    assert len({run(crash_stackwalk, *crash).stdout for _ in range(5)}) == 1


def test_a_cpu_limit_ends_it_with_an_error_and_without_output(
    crash_stackwalk: str, crash: tuple[Path, Path]
) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run(crash_stackwalk, "--cpu-limit", 1, "--passes", PASSES_THAT_TAKE_MINUTES, *crash)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    assert done.returncode not in (0, 2)
    assert done.stdout == ""
    assert done.stderr.startswith("ERROR ")
    assert "CPU" in done.stderr
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used_s >= 0.3  # the limit is 1 s, but the kernel counts for it by ticks


def test_a_generous_cpu_limit_changes_nothing(crash_stackwalk: str, crash: tuple[Path, Path]) -> None:
    assert run(crash_stackwalk, "--cpu-limit", 600, *crash).stdout == run(crash_stackwalk, *crash).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--json",),
        ("--nonsense", "x.dmp"),
        ("--cpu-limit",),
        ("--cpu-limit", "0", "x.dmp"),
        ("--cpu-limit", "-1", "x.dmp"),
        ("--cpu-limit", "1.5", "x.dmp"),
        ("--cpu-limit", "soon", "x.dmp"),
        ("--cpu-limit", "99999999999999999999999", "x.dmp"),
        ("--passes",),
        ("--passes", "0", "x.dmp"),
        ("--passes", "-3", "x.dmp"),
        ("--passes", "2x", "x.dmp"),
        ("--passes", "", "x.dmp"),
    ],
)
def test_wrong_usage_ends_with_two_and_says_so(crash_stackwalk: str, arguments: tuple[str, ...]) -> None:
    done = run(crash_stackwalk, *arguments)

    assert done.returncode == 2
    assert done.stdout == ""
    assert "sage" in done.stderr


def test_options_may_follow_the_dump(crash_stackwalk: str, crash: tuple[Path, Path]) -> None:
    dump, symbols = crash
    before = run(crash_stackwalk, "--pipe", "--passes", 2, dump, symbols)
    after = run(crash_stackwalk, dump, "--pipe", symbols, "--passes", 2)

    assert (after.returncode, after.stdout, after.stderr) == (0, before.stdout, "")
    assert run(crash_stackwalk, dump, "--cpu-limit").returncode == 2
    assert wording("crash-processor.pipe-not-there") in run(crash_stackwalk, dump, "--", "--pipe").stderr


def test_a_symbol_folder_that_is_none_is_warned_of(
    crash_stackwalk: str, crash: tuple[Path, Path], tmp_path: Path
) -> None:
    dump, symbols = crash
    done = run(crash_stackwalk, dump, tmp_path / "nowhere", dump, symbols)

    assert (done.returncode, done.stdout) == (0, run(crash_stackwalk, dump, symbols).stdout)
    assert done.stderr.splitlines() == [
        wording("crash-processor.symbol-folder-not-there", tmp_path=tmp_path),
        wording("crash-processor.symbol-folder-is-none", dump=dump),
    ]


def test_help_goes_to_stdout(crash_stackwalk: str) -> None:
    done = run(crash_stackwalk, "--help")

    assert done.returncode == 0
    assert all(word in done.stdout for word in ("--json", "--pipe", "--cpu-limit", "--passes", "SYMBOL_DIR"))
    assert done.stderr == ""


def test_a_missing_dump_is_named(crash_stackwalk: str, tmp_path: Path) -> None:
    done = run(crash_stackwalk, tmp_path / "nowhere.dmp")

    assert done.returncode == 1
    assert done.stderr.startswith("ERROR ")
    assert "nowhere.dmp" in done.stderr
    assert "No such file" in done.stderr


def test_missing_symbol_folders_are_no_error(crash_stackwalk: str, crash: tuple[Path, Path]) -> None:
    dump, store = crash

    assert (
        run(crash_stackwalk, dump, store.parent / "nowhere", store).stdout
        == run(crash_stackwalk, *crash).stdout
    )
    assert run(crash_stackwalk, dump, store.parent / "nowhere").returncode == 0


def test_a_dump_whose_name_starts_with_a_dash_comes_after_two(
    crash_stackwalk: str, crash: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "--json").write_bytes(crash[0].read_bytes())
    monkeypatch.chdir(tmp_path)

    assert run(crash_stackwalk, "--", "--json", crash[1]).stdout == run(crash_stackwalk, *crash).stdout


def test_output_that_cannot_be_written_is_an_error(crash_stackwalk: str, crash: tuple[Path, Path]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [crash_stackwalk, *map(str, crash)],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_S,
            check=False,
        )

    assert done.returncode != 0
    assert done.stderr.startswith(b"ERROR ")
