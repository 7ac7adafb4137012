"""Writes into a wheel, and into its name, on which Linux its programs run.

python requirements/tag_wheel.py dist/proctuner-VERSION-py3-none-linux_x86_64.whl

A program that is linked statically needs no C library of its host, so that its wheel may carry the tags of
manylinux and of musllinux. The name of the new file is printed and the old file is removed. If a program is
linked dynamically, the wheel stays as it is, and stderr says why. The same wheel gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import InterpSegment

#: what a static program of each processor runs on: the oldest manylinux and musllinux with a Python that
#: tuner supports. Its own needs are less: Linux 3.2 on x86_64, 3.7 on aarch64.
PLATFORMS = {
    "EM_X86_64": ("manylinux_2_17_x86_64", "musllinux_1_1_x86_64"),
    "EM_AARCH64": ("manylinux_2_17_aarch64", "musllinux_1_1_aarch64"),
}
_NAME = re.compile(r"(?P<before>.+-py3-none)-linux_\w+\.whl")


class NotPortableError(Exception):
    """Why the wheel is for hosts like this one only."""


def platforms_of(wheel: Path) -> tuple[str, ...]:
    """The platform tags that every program of *wheel* deserves.

    Raises:
        NotPortableError: there is no program, or one that is not static, or for a processor without tags.
    """
    found = {name: _platforms(name, content) for name, content in _programs(wheel)}
    if len(set(found.values())) != 1:
        raise NotPortableError(f"expected programs for one processor, found {sorted(found) or 'none'}")
    return next(iter(found.values()))


def _programs(wheel: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if (content := archive.read(name)).startswith(b"\x7fELF"):
                yield name.rpartition("/")[2], content


def _platforms(name: str, content: bytes) -> tuple[str, ...]:
    elf = ELFFile(io.BytesIO(content))
    if any(isinstance(segment, (InterpSegment, DynamicSegment)) for segment in elf.iter_segments()):
        raise NotPortableError(
            f"{name} is linked dynamically: this host has no static C library (Debian: libc6-dev, Fedora:"
            " glibc-static)"
        )
    if (machine := elf["e_machine"]) not in PLATFORMS:
        raise NotPortableError(f"{name} is for {machine}, for which no tags are known")
    return PLATFORMS[machine]


def tagged(wheel: Path, platforms: tuple[str, ...]) -> Path:
    """Write *wheel* again as one for *platforms*, remove the old file and return the new one.

    Raises:
        ValueError: its name is not that of a wheel for every Python 3 on one Linux.
    """
    match = _NAME.fullmatch(wheel.name)
    if match is None:
        raise ValueError(f"expected a wheel named *-py3-none-linux_*.whl, found {wheel.name}")
    target = wheel.with_name(f"{match['before']}-{'.'.join(platforms)}.whl")
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in platforms)
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w") as out:
        (facts,) = (name for name in source.namelist() if name.endswith(".dist-info/WHEEL"))
        rest = re.sub(r"^Tag: .*\n?", "", source.read(facts).decode("utf-8"), flags=re.MULTILINE)
        result = (rest.rstrip("\n") + "\n" + tags).encode("utf-8")
        for member in source.infolist():  # dates, rights and compression stay
            content = source.read(member)
            if member.filename == facts:
                content = result
            elif member.filename == facts.removesuffix("WHEEL") + "RECORD":
                content = _recorded(content.decode("utf-8"), facts, result).encode("utf-8")
            out.writestr(member, content)
    wheel.unlink()
    return target


def _recorded(record: str, name: str, content: bytes) -> str:
    """*record* with the hash and the size that *name* has now."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode("ascii")
    row = f"{name},sha256={digest},{len(content)}"
    changed, n_rows = re.subn(rf"^{re.escape(name)},.*$", row, record, flags=re.MULTILINE)
    if n_rows != 1:
        raise ValueError(f"expected one row of {name} in RECORD, found {n_rows}")
    return changed


def main() -> int:
    """Tag the wheel that is named."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.stderr.write("Error: expected the path of one wheel\nmake wheel builds it and calls this.\n")
        return 2
    wheel = Path(sys.argv[1])
    try:
        platforms = platforms_of(wheel)
    except NotPortableError as reason:
        sys.stderr.write(f"{wheel.name} is for hosts like this one only: {reason}.\n")
        platforms = ()
    sys.stdout.write(f"{tagged(wheel, platforms) if platforms else wheel}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
