"""The C code under AddressSanitizer and UndefinedBehaviorSanitizer: unit tests, fuzzer, damaged dumps."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tuner_workers.crash_processor.synthetic import make_crash, make_world, write_spool_dumps

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "workers" / "crash_processor" / "stackwalker"
FUZZER = ROOT / "tests" / "fuzz" / "run.py"
FUZZ_RUNS = 9000  #: of each target: half a minute in all
COMPILE_TIMEOUT_S = 280

pytestmark = pytest.mark.integration


def need(tool: str) -> str:
    """The tool's path; without it the test is skipped at home and fails in CI."""
    found = shutil.which(tool)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{tool} is not installed, and CI must have it")
        pytest.skip(f"{tool} is not installed")
    return found


@pytest.mark.parametrize("compiler", ["gcc", pytest.param("clang", marks=pytest.mark.full)])
def test_the_unit_tests_in_c_pass_under_sanitizers(compiler: str) -> None:
    done = subprocess.run(
        [SOURCES / "tests" / "run.sh", need(compiler)],
        capture_output=True,
        text=True,
        timeout=COMPILE_TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok test_") == len(list((SOURCES / "tests").glob("test_*.c"))) > 0


@pytest.mark.timeout(600)
def test_the_fuzzers_find_nothing_in_a_short_run_that_can_be_repeated(tmp_path: Path) -> None:
    clang = need("clang")
    corpus = tmp_path / "corpus"
    write_spool_dumps(corpus, 40, 1, 8_000)
    folders = [corpus, *filter(Path.is_dir, [ROOT.parent / "shared" / "data" / "minidumps"])]

    done = subprocess.run(
        [
            *(
                sys.executable,
                FUZZER,
                "--runs",
                str(FUZZ_RUNS),
                "--seed",
                "1",
                "--clang",
                clang,
                "--artifacts",
                tmp_path,
            ),
            *("--corpus", *folders),
        ],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-8000:]


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, built with sanitizers."""
    program = tmp_path_factory.mktemp("sanitized") / "crash-stackwalk"
    flags = ["-std=gnu11", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(
        [need("gcc"), *flags, *sorted(SOURCES.glob("*.c")), "-o", program],
        check=True,
        timeout=COMPILE_TIMEOUT_S,
    )
    return program


@pytest.mark.full
@pytest.mark.parametrize("os_name", ["linux", "windows", "macos"])
def test_damaged_dumps_and_symbols_do_no_harm(sanitized: Path, tmp_path: Path, os_name: str) -> None:
    world = make_world(4, symbols_bytes=12_000, os_name=os_name)
    random = Random(f"harm {os_name}")
    for seed in range(150):
        world.write_symbols(tmp_path)
        for path in sorted(tmp_path.rglob("*.sym")):
            path.write_bytes(garbled(random, path.read_bytes()))
        dump = bytearray(make_crash(seed, world).dump)
        for _ in range(random.randrange(8)):
            limit = random.choice((32, 200, len(dump)))
            number = random.choice(
                (0, 1, 3, 0xFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFC, 0xFFFF_FFFF, len(dump))
            )
            struct.pack_into("<I", dump, random.randrange(limit - 4) & ~3, number)
        (tmp_path / "x.dmp").write_bytes(dump)
        done = subprocess.run(
            [sanitized, random.choice(("--json", "--pipe")), tmp_path / "x.dmp", tmp_path],
            capture_output=True,
            timeout=60,
            check=False,
        )

        assert done.returncode in (0, 1), done.stderr.decode(errors="replace")
        assert (done.returncode == 1) == done.stderr.startswith(b"ERROR "), done.stderr.decode(
            errors="replace"
        )
        assert b"Sanitizer" not in done.stderr
        assert b"runtime error" not in done.stderr


def garbled(random: Random, text: bytes) -> bytes:
    """The text with a few bytes replaced, stretches dropped, and stretches copied elsewhere."""
    data = bytearray(text)
    for _ in range(random.randrange(20)):
        at = random.randrange(len(data))
        match random.randrange(4):
            case 0:
                data[at] = random.choice(b"\n\r\0 :^-+0fF$.\xff9amMFPSI")
            case 1:
                del data[at : at + random.randrange(1, 40)]
            case 2:
                data[at:at] = random.choice(
                    (b"ffffffffffffffff ", b"FUNC 0 ffffffff 0 all\n", b"\n", b"1 - ^ ")
                )
            case 3:
                start = random.randrange(len(data))
                data[at:at] = data[start : start + random.randrange(200)]
    return bytes(data)
