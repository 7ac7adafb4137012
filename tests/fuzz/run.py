#!/usr/bin/env python3
"""Fuzz the stackwalker: build the libFuzzer target, run it for a while, fail on the first finding.

    tests/fuzz/run.py --seconds 30 [--corpus DIR ...]

Every minidump and every .sym file below the corpus folders becomes a seed, beside one that is built in.
The exit status is 0 when nothing was found, 1 when something was (the input is kept and named), 2 without
clang or libFuzzer.
"""

import argparse
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "workers" / "crash_processor" / "stackwalker"
SANITIZERS = ["-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]
LONGEST_SEED_BYTES = 256 * 1024
SYMBOLS = b"""MODULE Linux x86_64 000000000000000000000000000000010 a
FILE 0 a.c
FILE 1 b.c
INLINE_ORIGIN 0 inlined()
FUNC 1000 100 0 crash()
INLINE 0 7 0 0 1000 20
1000 20 42 1
1020 e0 43 0
FUNC m 1100 80 0 main
1100 80 9 0
PUBLIC 1800 0 start
STACK CFI INIT 1000 100 .cfa: $rsp 8 + .ra: .cfa 8 - ^
STACK CFI 1001 .cfa: $rsp 16 + $rbp: .cfa 16 - ^
STACK CFI 1004 .cfa: $rbp 16 + $rbx: .undef $r12: 5 7 * 2 / 3 % 8 @
"""


def small_dump() -> bytes:
    """A dump with one of each thing: a thread, its stack, a module, an exception, names."""
    blobs = bytearray()
    start = 32 + 6 * 12

    def put(blob: bytes) -> int:
        at = start + len(blobs)
        blobs.extend(blob)
        return at

    def text(name: str) -> bytes:
        units = name.encode("utf-16-le")
        return struct.pack("<I", len(units)) + units

    base, stack_at = 0x400000, 0x7FFF0000
    words = [base + 0x1105, stack_at + 64, base + 0x1810, 0, stack_at + 96, base + 0x1010, 7, base + 0x1120]
    stack = struct.pack("<16Q", *(words * 2))
    stack_rva = put(stack)
    context = bytearray(1232)
    struct.pack_into("<I", context, 48, 0x10000B)
    struct.pack_into("<QQ", context, 152, stack_at, stack_at + 32)
    struct.pack_into("<Q", context, 248, base + 0x1002)
    context_rva = put(bytes(context))
    name_rva = put(text("/bin/a"))
    build_id = b"LEpB" + bytes([1] * 20)
    cv_rva = put(build_id)
    module = struct.pack("<QIIII", base, 0x4000, 0, 0, name_rva) + bytes(52)
    module += struct.pack("<IIII", len(build_id), cv_rva, 0, 0) + bytes(16)
    thread = struct.pack(
        "<IIIIQQIIII", 1, 0, 0, 0, 0, stack_at, len(stack), stack_rva, len(context), context_rva
    )
    exception = struct.pack("<IIIIQQII", 1, 0, 11, 1, 0, 0, 0, 0) + bytes(120)
    exception += struct.pack("<II", len(context), context_rva)
    system = struct.pack(
        "<HHHBBIIIIIHH", 9, 6, 0x2D07, 2, 0, 0, 0, 0, 0x8201, put(text("Linux 5.1 #1 x86_64")), 0, 0
    )
    memory = struct.pack("<IQII", 1, stack_at, len(stack), stack_rva)
    streams = [
        (3, struct.pack("<I", 1) + thread),
        (4, struct.pack("<I", 1) + module),
        (5, memory),
        (6, exception),
        (7, system + bytes(24)),
        (24, struct.pack("<IIQ", 1, 1, put(text("worker")))),
    ]
    directory = b"".join(struct.pack("<III", kind, len(body), put(body)) for kind, body in streams)
    header = struct.pack("<4sIIIIIQ", b"MDMP", 0xA793, len(streams), 32, 0, 0, 0)
    return header + directory + bytes(blobs)


def seeds(folders: list[Path]) -> Iterator[bytes]:
    """Pairs of dump and symbols, in the target's format; only what is small enough to mutate well."""
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    contents = [path.read_bytes() for path in files if path.stat().st_size <= LONGEST_SEED_BYTES]
    dumps = [small_dump()] + [data for data in contents if data.startswith(b"MDMP")]
    symbols = [SYMBOLS] + [data[:8192] for data in contents if data.startswith(b"MODULE ")]
    for i, dump in enumerate(dumps):
        yield struct.pack("<I", len(dump)) + dump + symbols[i % len(symbols)]
    for text in symbols:
        yield struct.pack("<I", len(dumps[0])) + dumps[0] + text


def build(clang: str, folder: Path) -> Path:
    target = folder / "stackwalker_fuzz"
    sources = sorted(path for path in SOURCES.glob("*.c") if path.name != "main.c")
    command = [
        clang,
        "-std=gnu11",
        "-g",
        "-O1",
        *SANITIZERS,
        f"-I{SOURCES}",
        str(HERE / "stackwalker_fuzz.c"),
    ]
    subprocess.run([*command, *map(str, sources), "-o", str(target)], check=True)
    return target


def has_libfuzzer(clang: str, folder: Path) -> bool:
    probe = folder / "probe.c"
    probe.write_text("int LLVMFuzzerTestOneInput(const char *data) { return data ? 0 : 0; }\n")
    command = [clang, *SANITIZERS, str(probe), "-o", str(folder / "probe")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def missing_tool(problem: str) -> int:
    sys.stderr.write(f"Error: {problem}\n")
    return 2


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=30, help="how long to run (default 30)")
    parser.add_argument("--corpus", type=Path, nargs="*", default=[], help="folders of dumps and .sym files")
    parser.add_argument(
        "--artifacts", type=Path, default=Path("."), help="where a finding is kept (default .)"
    )
    parser.add_argument("--clang", default="clang", help="compiler with libFuzzer (default clang)")
    options = parser.parse_args()
    missing = [str(folder) for folder in options.corpus if not folder.is_dir()]
    if missing or options.seconds < 1:
        parser.error(f"no such folder: {', '.join(missing)}" if missing else "--seconds must be 1 or more")
    if not shutil.which(options.clang):
        return missing_tool(f"{options.clang} was not found. Install clang with libFuzzer.")
    with tempfile.TemporaryDirectory(prefix="stackwalker-fuzz-") as name:
        folder = Path(name)
        if not has_libfuzzer(options.clang, folder):
            return missing_tool(f"{options.clang} cannot link libFuzzer. Install its runtime (compiler-rt).")
        target = build(options.clang, folder)
        corpus = folder / "corpus"
        corpus.mkdir()
        for i, seed in enumerate(seeds(options.corpus)):
            (corpus / f"seed-{i:04}").write_bytes(seed)
        command = [str(target), f"-max_total_time={options.seconds}", "-timeout=10", "-rss_limit_mb=2048"]
        command += [
            f"-max_len={LONGEST_SEED_BYTES + 8192}",
            f"-artifact_prefix={options.artifacts.resolve()}/",
        ]
        command += ["-print_final_stats=1", "-verbosity=1", str(corpus)]
        found = subprocess.run(command, check=False).returncode != 0
    sys.stderr.write("The fuzzer found something: see above.\n" if found else "Nothing found.\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
