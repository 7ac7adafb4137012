"""What fuzzing begins with: small dumps and a symbol text, built in, and the files of given folders."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LONGEST_DUMP_BYTES = 96 * 1024
LONGEST_SYMBOLS_BYTES = 16 * 1024

BASE, STACK_AT = 0x400000, 0x7FFF0000
SYMBOLS = b"""MODULE Linux x86_64 000000000000000000000000000000010 a
INFO CODE_ID 0102
FILE 0 a.c
FILE 1 b.c
INLINE_ORIGIN 0 inlined()
INLINE_ORIGIN 1 deeper()
FUNC 1000 100 0 crash()
INLINE 0 7 0 0 1000 20
INLINE 1 8 1 1 1000 10 1018 4
1000 20 42 1
1020 e0 43 0
FUNC m 1100 80 0 main
1100 80 9 0
PUBLIC 1800 0 start
PUBLIC m 1800 0 begin
STACK CFI INIT 1000 100 .cfa: $rsp 8 + .ra: .cfa 8 - ^
STACK CFI 1001 .cfa: $rsp 16 + $rbp: .cfa 16 - ^
STACK CFI 1004 .cfa: $rbp 16 + $rbx: .undef $r12: 5 7 * 2 / 3 % 8 @
STACK CFI INIT 1100 80 .cfa: $rsp 8 + .ra: .cfa -8 + ^
STACK CFI INIT 2000 100 .cfa: $esp 4 + .ra: .cfa 4 - ^ $ebp: $ebp
STACK WIN 4 2000 10 0 0 0 0 0 0 1 $T0 $ebp = $eip $T0 4 + ^ =
"""


@dataclass(frozen=True)
class Kind:
    """A processor and a system that small dumps are made for."""

    architecture: int
    width: int
    platform: int
    context: int  #: bytes of a context
    flags_at: int
    flags: int
    registers: tuple[int, int, int]  #: where a context keeps the instruction, stack and frame pointers
    code: int  #: of the exception


KINDS = {
    "linux-amd64": Kind(9, 8, 0x8201, 1232, 48, 0x10000B, (248, 152, 160), 11),
    "windows-amd64": Kind(9, 8, 2, 1232, 48, 0x10000B, (248, 152, 160), 0xC0000005),
    "macos-amd64": Kind(9, 8, 0x8101, 1232, 48, 0x10000B, (248, 152, 160), 1),
    "windows-x86": Kind(0, 4, 2, 716, 0, 0x10007, (184, 196, 180), 0xC0000409),
    "linux-x86": Kind(0, 4, 0x8201, 716, 0, 0x10007, (184, 196, 180), 4),
}

LINUX_TEXTS = {
    0x47670003: b"processor\t: 0\nmicrocode\t: 0x1f\n",
    0x47670004: b"Name:\tworker\nPid:\t4711\n",
    0x47670005: b'DISTRIB_ID=Debian\nVERSION_ID="12"\nPRETTY_NAME="Debian 12"\nVERSION_CODENAME=x\n',
    0x47670009: b"00400000-00404000 r-xp 00000000 08:01 12 /bin/a\nSize: 4 kB\n",
    0x4D7A0003: b"Limit   Soft  Hard  Units\nMax open files  1024  unlimited  files\nMax x  1  2  \n",
}


class Dump:
    """Bytes of a dump under way: blobs one after another, the directory of streams in front."""

    def __init__(self, n_streams: int) -> None:
        self.blobs = bytearray()
        self.start = 32 + 12 * n_streams

    def put(self, blob: bytes) -> int:
        at = self.start + len(self.blobs)
        self.blobs.extend(blob)
        return at

    def name(self, name: str) -> int:
        units = name.encode("utf-16-le")
        return self.put(struct.pack("<I", len(units)) + units)

    def place(self, blob: bytes) -> tuple[int, int]:
        """Its length and where it is, as records have them."""
        return len(blob), self.put(blob)


def small_dump(kind: Kind, ip: int = BASE + 0x1002) -> bytes:
    """A dump with one of each thing: two threads, stacks, modules, an exception, names, texts."""
    linux = kind.platform == 0x8201
    dump = Dump(12 + (len(LINUX_TEXTS) if linux else 0))
    word = "<Q" if kind.width == 8 else "<I"
    words = [BASE + 0x1105, STACK_AT + 64, BASE + 0x1810, 0, STACK_AT + 96, BASE + 0x1010, 7, BASE + 0x1120]
    stack = b"".join(struct.pack(word, value) for value in words * 2)
    stack_rva = dump.put(stack)
    context = bytearray(kind.context)
    struct.pack_into("<I", context, kind.flags_at, kind.flags)
    for at, value in zip(kind.registers, (ip, STACK_AT, STACK_AT + 32), strict=True):
        struct.pack_into(word, context, at, value)
    context_place = dump.place(bytes(context))
    threads = [
        struct.pack(
            "<IIIIQQIIII", 1, 0, 0, 0, STACK_AT - 0x68, STACK_AT, len(stack), stack_rva, *context_place
        ),
        struct.pack("<IIIIQQIIII", 2, 0, 0, 0, 0, STACK_AT, 0, 0, *context_place),
    ]
    records = [
        b"LEpB" + bytes([1] * 20),
        b"RSDS" + bytes(range(16)) + struct.pack("<I", 1) + b"c:\\b.pdb\0",
        b"NB10" + struct.pack("<III", 0, 0x5A000000, 2) + b"c.pdb\0",
    ]
    version = struct.pack("<IIIIII", 0xFEEF04BD, 0x10000, 0x10002, 0x30004, 0, 0) + bytes(28)
    modules = [
        struct.pack("<QIIII", BASE + 0x100000 * i, 0x4000, 0, 0x4A5BDD6E, dump.name(path))
        + version
        + struct.pack("<IIII", *dump.place(record), 0, 0)
        + bytes(16)
        for i, (path, record) in enumerate(zip(("/bin/a", "C:\\b.exe", "c.dll"), records, strict=True))
    ]
    exception = struct.pack("<IIIIQQII", 1, 0, kind.code, 1, 0, 0x10, 2, 0)
    exception += struct.pack("<15Q", 1, 0x10, *([0] * 13)) + struct.pack("<II", *context_place)
    system = struct.pack(
        "<HHHBBIIIIIHH",
        *(kind.architecture, 6, 0x2D07, 2, 0, 0, 0, 0, kind.platform),
        *(dump.name("Linux 5.1.0 #1 SMP x86_64 GNU/Linux" if linux else "Service Pack 1"), 0, 0),
    )
    unloaded = struct.pack("<III", 12, 24, 1) + struct.pack(
        "<QIIII", BASE + 0x900000, 0x1000, 0, 7, dump.name("old.dll")
    )
    region = struct.pack("<QII", STACK_AT, len(stack), stack_rva)
    teb = dump.put(bytes(64) + struct.pack("<II", 0, 5) + bytes(64))
    streams = [
        (3, struct.pack("<I", len(threads)) + b"".join(threads)),
        (4, struct.pack("<I", len(modules)) + b"".join(modules)),
        (5, struct.pack("<I", 2) + region + struct.pack("<QII", STACK_AT - 0x100, 136, teb)),
        (6, exception),
        (7, system + b"GenuineIntel" + bytes(12)),
        (9, struct.pack("<QQQQ", 1, stack_rva, STACK_AT, len(stack)) if not linux else b""),
        (14, unloaded),
        (15, struct.pack("<IIIIII", 24, 3, 4711, 1_600_000_000, 0, 0)),
        (16, bytes(16)),
        (24, struct.pack("<IIQ", 1, 1, dump.name("worker \U0001f40d"))),
        (0x47670001, struct.pack("<III", 2, 0, 1)),
        (0, b""),
        *(LINUX_TEXTS.items() if linux else ()),
    ]
    directory = b"".join(struct.pack("<III", number, *dump.place(body)) for number, body in streams)
    header = struct.pack("<4sIIIIIQ", b"MDMP", 0xA793, len(streams), 32, 0, 1_600_000_000, 0)
    return header + directory + bytes(dump.blobs)


def files(folders: list[Path]) -> Iterator[bytes]:
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.stat().st_size <= 1 << 20:
                yield path.read_bytes()


def dump_seeds(folders: list[Path]) -> Iterator[bytes]:
    """Whole dumps, none of them too long to be mutated well."""
    yield from (small_dump(kind) for kind in KINDS.values())
    yield from (data for data in files(folders) if data[:4] == b"MDMP" and len(data) <= LONGEST_DUMP_BYTES)


def symbol_seeds(folders: list[Path]) -> Iterator[bytes]:
    """Symbol texts, the long ones cut after a line: their beginning, and where their unwind rules begin."""
    yield SYMBOLS
    for text in files(folders):
        if not text.startswith(b"MODULE "):
            continue
        yield cut(text[:LONGEST_SYMBOLS_BYTES])
        rules = text.find(b"STACK CFI INIT")
        if rules > LONGEST_SYMBOLS_BYTES // 2:
            functions = cut(text[: LONGEST_SYMBOLS_BYTES // 2])
            yield functions + cut(text[rules : rules + LONGEST_SYMBOLS_BYTES // 2])


def cut(text: bytes) -> bytes:
    return text[: text.rfind(b"\n") + 1]


def fixed_inputs() -> str:
    """A C header: the symbols that a fuzzed dump meets, and the dumps that fuzzed symbols are used for."""
    lines = ["// Made by seeds.py.", "#include <stdint.h>", c_array("fixed_symbols", SYMBOLS)]
    for name in ("linux-amd64", "windows-x86"):
        kind = KINDS[name]
        marked = small_dump(kind, ip=0x1122334455667788 & (1 << 8 * kind.width) - 1)
        needle = (0x1122334455667788 & (1 << 8 * kind.width) - 1).to_bytes(kind.width, "little")
        assert marked.count(needle) == 1
        word = name.replace("-", "_")
        lines += [
            c_array(f"{word}_dump", small_dump(kind)),
            f"enum {{ {word}_ip = {marked.index(needle)} }};",
        ]
    lines += [f"enum {{ fixed_base = {BASE:#x} }};", ""]
    return "\n".join(lines)


def c_array(name: str, data: bytes) -> str:
    return f"static const uint8_t {name}[] = {{{','.join(map(str, data))}}};"
