"""requirements/tag_wheel.py: which Linux a wheel says it is for, by the programs in it."""

from __future__ import annotations

import base64
import hashlib
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ..bench_modules import loaded
from ..raising import raises
from ..wording import end_of, wording

pytestmark = pytest.mark.pythons

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
X86_64, AARCH64, RISCV = 62, 183, 243  #: e_machine
LOAD, DYNAMIC, INTERPRETER = 1, 2, 3  #: p_type


@pytest.fixture
def scripts() -> Iterator[SimpleNamespace]:
    with loaded("tag_wheel", folder=REQUIREMENTS) as modules:
        yield modules


def program(machine: int, *segments: int) -> bytes:
    """An ELF file with nothing but a header and *segments*, whose content is empty."""
    identity = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    numbers = (2, machine, 1, 0, 64, 0, 0, 64, 56, len(segments), 64, 0, 0)
    header = struct.pack("<16sHHIQQQIHHHHHH", identity, *numbers)
    rows = [struct.pack("<IIQQQQQQ", kind, 4, 0, 0, 0, 0, 0, 8) for kind in segments]
    return header + b"".join(rows)


def wheel(folder: Path, *programs: bytes, name: str = "proctuner-1-py3-none-linux_x86_64.whl") -> Path:
    """A wheel as meson-python writes one."""
    facts = b"Wheel-Version: 1.0\nGenerator: meson\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64"
    members = {f"proctuner-1.data/scripts/p{n}": content for n, content in enumerate(programs)}
    members |= {"tuner/__init__.py": b"", "proctuner-1.dist-info/WHEEL": facts}
    rows = [f"{path},sha256={digest(content)},{len(content)}\n" for path, content in members.items()]
    members["proctuner-1.dist-info/RECORD"] = "".join([*rows, "proctuner-1.dist-info/RECORD,,\n"]).encode()
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            info = zipfile.ZipInfo(member, (2026, 11, 26, 8, 0, 0))
            info.external_attr = (0o755 if "scripts" in member else 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return path


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (X86_64, ("manylinux_2_17_x86_64", "musllinux_1_1_x86_64")),
        (AARCH64, ("manylinux_2_17_aarch64", "musllinux_1_1_aarch64")),
    ],
)
def test_static_programs_make_a_wheel_for_every_linux_of_their_processor(
    scripts: SimpleNamespace, tmp_path: Path, machine: int, expected: tuple[str, ...]
) -> None:
    built = wheel(tmp_path, program(machine, LOAD), program(machine, LOAD, LOAD))

    platforms = scripts.tag_wheel.platforms_of(built)
    tagged = scripts.tag_wheel.tagged(built, platforms)

    assert platforms == expected
    assert [path.name for path in tmp_path.iterdir()] == [f"proctuner-1-py3-none-{'.'.join(expected)}.whl"]
    with zipfile.ZipFile(tagged) as archive:
        facts = archive.read("proctuner-1.dist-info/WHEEL").decode()
        record = archive.read("proctuner-1.dist-info/RECORD").decode().splitlines()
        data = {row.split(",")[0]: row.split(",")[1:] for row in record}
        for name in archive.namelist():
            if name in data and data[name] != ["", ""]:
                content = archive.read(name)
                assert data[name] == [f"sha256={digest(content)}", str(len(content))]
        assert set(data) == set(archive.namelist())
        assert archive.getinfo("proctuner-1.data/scripts/p0").external_attr == 0o755 << 16
    assert facts.splitlines()[:3] == ["Wheel-Version: 1.0", "Generator: meson", "Root-Is-Purelib: false"]
    assert facts.splitlines()[3:] == [f"Tag: py3-none-{platform}" for platform in expected]


def test_the_same_wheel_is_tagged_with_the_same_bytes(scripts: SimpleNamespace, tmp_path: Path) -> None:
    results = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        built = wheel(tmp_path / name, program(X86_64, LOAD))
        results.append(scripts.tag_wheel.tagged(built, scripts.tag_wheel.platforms_of(built)).read_bytes())

    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("programs", "reason"),
    [
        (
            (program(X86_64, LOAD), program(X86_64, INTERPRETER, LOAD, DYNAMIC)),
            wording("packages.linked-dynamically", name="p1"),
        ),
        ((program(X86_64, LOAD, DYNAMIC),), wording("packages.linked-dynamically", name="p0")),
        ((program(RISCV, LOAD),), wording("packages.processor-without-tags")),
        ((program(X86_64, LOAD), program(AARCH64, LOAD)), wording("packages.programs-for-two-processors")),
        ((), wording("packages.no-program")),
    ],
    ids=["one-dynamic", "shared", "processor", "two-processors", "none"],
)
def test_a_wheel_that_not_every_linux_can_run_is_not_tagged(
    scripts: SimpleNamespace, tmp_path: Path, programs: tuple[bytes, ...], reason: str
) -> None:
    with raises(scripts.tag_wheel.NotPortableError, reason):
        scripts.tag_wheel.platforms_of(wheel(tmp_path, *programs))


def test_such_a_wheel_stays_as_it_is_and_the_reason_is_printed(
    scripts: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    built = wheel(tmp_path, program(X86_64, INTERPRETER, LOAD))
    before = built.read_bytes()
    monkeypatch.setattr("sys.argv", ["tag_wheel.py", str(built)])

    assert scripts.tag_wheel.main() == 0
    said = capsys.readouterr()
    assert said.out == f"{built}\n"
    assert wording("packages.for-hosts-like-this-one") in end_of(said.err)
    assert built.read_bytes() == before


def test_a_file_with_another_name_is_refused(scripts: SimpleNamespace, tmp_path: Path) -> None:
    built = wheel(tmp_path, program(X86_64, LOAD), name="proctuner-1-cp311-cp311-linux_x86_64.whl")

    with raises(ValueError, wording("packages.another-wheel-name")):
        scripts.tag_wheel.tagged(built, ("manylinux_2_17_x86_64",))


def test_a_wheel_that_is_not_there_is_named_as_wrong_input(
    scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["tag_wheel.py", "nowhere.whl"])

    assert scripts.tag_wheel.main() == 2
    assert capsys.readouterr().err.splitlines()[0] == wording("packages.path-of-one-wheel")
