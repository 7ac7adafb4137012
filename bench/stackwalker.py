#!/usr/bin/env python3
"""CPU time of crash-stackwalk compared with rust-minidump's minidump-stackwalk, for each dump.

    bench/stackwalker.py [--peer minidump-stackwalk] [--ours crash-stackwalk] [--rounds 40]
                         [--symbols DIR] [DUMP ...]

Runs alternate, so that a disturbance affects both programs. CPU is user + system of the child, from wait4.
The ratio is the median of the ratios of consecutive runs. The bench adds a dump whose module has a symbol
file of 4 MB, which it writes itself. Bars: half of the peer's CPU, and a fifth with the 4 MB. The exit code
is 1 if a bar is missed.
"""

import argparse
import os
import random
import shutil
import statistics
import struct
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

MODULE_BASE = 0x400000
STACK_BASE = 0x7FFF00000000
BUILD_ID = bytes(range(1, 21))
DEBUG_ID = "0403020106050807090A0B0C0D0E0F100"  # the first 16 bytes as a GUID, then age 0
SYMBOL_BYTES = 4 * 1000 * 1000
N_FRAMES = 6


def write_symbols(path: Path, size: int) -> list[int]:
    """Write a symbol file of *size* bytes: functions with lines and CFI; return the functions' addresses."""
    draw = random.Random(7)
    files = [f"FILE {i} /build/src/component_{i % 20}/source_{i}.cc" for i in range(400)]
    functions: list[str] = []
    rules: list[str] = []
    addresses: list[int] = []
    at, written = 0x1000, sum(len(line) + 1 for line in files)
    while written < size:
        n_lines, length = draw.randint(4, 60), 0
        lines = []
        for _ in range(n_lines):
            step = draw.randint(3, 24)
            lines.append(f"{at + length:x} {step:x} {draw.randint(1, 4000)} {draw.randrange(400)}")
            length += step
        name = (
            f"ns{draw.randrange(40)}::Class{draw.randrange(900)}::method_{len(addresses)}(int, char const*)"
        )
        block = [f"FUNC {at:x} {length:x} 0 {name}", *lines]
        unwind = [
            f"STACK CFI INIT {at:x} {length:x} .cfa: $rsp 8 + .ra: .cfa -8 + ^",
            f"STACK CFI {at + 1:x} .cfa: $rsp 16 + $rbp: .cfa -16 + ^",
            f"STACK CFI {at + 4:x} .cfa: $rbp 16 +",
        ]
        functions += block
        rules += unwind
        addresses.append(at)
        written += sum(len(line) + 1 for line in block + unwind)
        at += length + draw.choice([0, 3, 8])
    publics = [f"PUBLIC {at + 16 * i:x} 0 exported_{i}" for i in range(200)]
    path.parent.mkdir(parents=True)
    header = f"MODULE Linux x86_64 {DEBUG_ID} {path.parent.parent.name}"
    path.write_text("\n".join([header, *files, *functions, *publics, *rules]) + "\n")
    return addresses


def make_dump(addresses: list[int]) -> bytes:
    """A Linux dump with one crashed thread whose stack holds N_FRAMES frames with frame pointers."""
    start, blobs = 32 + 5 * 12, bytearray()

    def put(blob: bytes) -> int:
        at = start + len(blobs)
        blobs.extend(blob)
        return at

    chosen = addresses[:: len(addresses) // N_FRAMES][:N_FRAMES]
    words = []
    for i in range(1, N_FRAMES):
        words += [STACK_BASE + 16 * i if i < N_FRAMES - 1 else 0, MODULE_BASE + chosen[i] + 9]
    stack = struct.pack(f"<{len(words) + 2}Q", *words, 0, 0)
    stack_rva = put(stack)
    context = bytearray(1232)
    struct.pack_into("<I", context, 48, 0x10000B)
    struct.pack_into("<QQ", context, 152, STACK_BASE, STACK_BASE)
    struct.pack_into("<Q", context, 248, MODULE_BASE + chosen[0] + 9)
    context_rva = put(bytes(context))
    name = "/usr/bin/synthetic".encode("utf-16-le")
    name_rva = put(struct.pack("<I", len(name)) + name)
    cv_rva = put(b"LEpB" + BUILD_ID)
    module = struct.pack("<QIIII", MODULE_BASE, 0x10000000, 0, 0, name_rva) + bytes(52)
    module += struct.pack("<IIII", 24, cv_rva, 0, 0) + bytes(16)
    thread = struct.pack("<IIIIQQII", 7, 0, 0, 0, 0, STACK_BASE, len(stack), stack_rva)
    thread += struct.pack("<II", len(context), context_rva)
    exception = struct.pack("<IIIIQQII", 7, 0, 11, 1, 0, 0, 0, 0) + bytes(120)
    exception += struct.pack("<II", len(context), context_rva)
    system = struct.pack("<HHHBBIIIII", 9, 6, 0, 2, 0, 5, 4, 0, 0x8201, 0) + bytes(28)
    streams = [
        (3, struct.pack("<I", 1) + thread),
        (4, struct.pack("<I", 1) + module),
        (5, struct.pack("<IQII", 1, STACK_BASE, len(stack), stack_rva)),
        (6, exception),
        (7, system),
    ]
    directory = b"".join(struct.pack("<III", kind, len(body), put(body)) for kind, body in streams)
    return struct.pack("<4sIIIIIQ", b"MDMP", 0xA793, len(streams), 32, 0, 0, 0) + directory + bytes(blobs)


def cpu_s(command: list[str]) -> float:
    """Run *command* with its output thrown away; its user + system seconds."""
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=null)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"Error: {' '.join(command)} ended with wait status {status}.")
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True)
class Case:
    name: str
    dump: Path
    symbols: Path | None
    bar_ratio: float


def measure(case: Case, ours: str, peer: str, rounds: int) -> tuple[float, float, float]:
    """Median CPU seconds of ours and of the peer, and the median ratio of neighbouring runs."""
    extra = [str(case.symbols)] if case.symbols else []
    mine = [ours, str(case.dump), *extra]
    theirs = [peer, "--json", *[part for path in extra for part in ("--symbols-path", path)], str(case.dump)]
    for command in (mine, theirs):
        cpu_s(command)  # the files are in the page cache from here on
    pairs = [(cpu_s(mine), cpu_s(theirs)) for _ in range(rounds)]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def find(command: str, hint: str) -> str:
    path = shutil.which(command)
    if path is None:
        raise SystemExit(f"Error: {command} was not found. {hint}")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dumps", type=Path, nargs="*", help="real dumps to measure as well")
    parser.add_argument("--symbols", type=Path, help="their symbol store")
    parser.add_argument("--ours", default="crash-stackwalk")
    parser.add_argument("--peer", default="minidump-stackwalk")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    ours = find(options.ours, "Install this project, or give --ours.")
    peer = find(options.peer, "`cargo install minidump-stackwalk`, or give --peer.")

    with tempfile.TemporaryDirectory(prefix="stackwalker-bench-") as name:
        folder = Path(name)
        store = folder / "symbols"
        addresses = write_symbols(store / "synthetic" / DEBUG_ID / "synthetic.sym", SYMBOL_BYTES)
        dump = folder / "synthetic.dmp"
        dump.write_bytes(make_dump(addresses))
        cases = [
            Case("synthetic, no symbols", dump, None, 0.5),
            Case("synthetic, 4 MB symbols", dump, store, 0.2),
        ]
        for path in options.dumps:
            cases.append(Case(f"{path.stem}, no symbols", path, None, 0.5))
            if options.symbols:
                cases.append(Case(f"{path.stem}, symbols", path, options.symbols, 0.5))
        missed = False
        print(f"{'dump':44} {'ours ms':>8} {'peer ms':>8} {'ratio':>6} {'bar':>5}")
        for case in cases:
            mine_s, theirs_s, ratio = measure(case, ours, peer, options.rounds)
            verdict = "" if ratio <= case.bar_ratio else "  missed"
            missed = missed or bool(verdict)
            row = f"{case.name:44} {mine_s * 1e3:8.2f} {theirs_s * 1e3:8.2f} {ratio:6.3f} {case.bar_ratio:5}"
            print(row + verdict)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
