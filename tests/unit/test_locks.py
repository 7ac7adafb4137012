"""The locks, the page of licences that is made from them, the bill of materials and what an audit says."""

from __future__ import annotations

import datetime
import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.markers import Marker

from ..bench_modules import loaded
from ..raising import raises
from ..wording import end_of, wording

pytestmark = pytest.mark.pythons

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements"
LOCKS = sorted(REQUIREMENTS.glob("*.txt"))
WRITTEN = datetime.datetime(2026, 11, 23, 8, tzinfo=datetime.UTC)


@pytest.fixture
def scripts() -> Iterator[SimpleNamespace]:
    with loaded("locked", "licences", "sbom", "audit", folder=REQUIREMENTS) as modules:
        yield modules


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_package_of_a_lock_has_its_hashes(scripts: SimpleNamespace, lock: Path) -> None:
    packages = scripts.locked.read_lock(lock)

    assert (
        len(packages) == len(re.findall(r"^[^\s#].*==", lock.read_text(encoding="utf-8"), re.MULTILINE)) > 0
    )
    assert [package.name for package in packages if not package.sha256] == []


def test_a_line_that_pins_nothing_is_reported_with_its_place(
    scripts: SimpleNamespace, tmp_path: Path
) -> None:
    lock = tmp_path / "run.txt"
    lock.write_text("rich==15.0.0 \\\n    --hash=sha256:" + "0" * 64 + "\nclick>=8\n", encoding="utf-8")

    with pytest.raises(ValueError, match=r"run\.txt:3: neither .* click>=8"):
        scripts.locked.read_lock(lock)


def test_the_page_of_licences_is_what_is_locked_and_installed(scripts: SimpleNamespace) -> None:
    page = (ROOT / "requirements" / "licences.md").read_text(encoding="utf-8")

    assert page == scripts.licences.render(), "make licences"


@pytest.mark.parametrize("lock", ["run", "build", "fleet", "dev"])
def test_a_licence_does_not_depend_on_the_python_that_writes_the_page(
    scripts: SimpleNamespace, lock: str
) -> None:
    depends = {
        one.name
        for one in scripts.locked.read_lock(REQUIREMENTS / f"{lock}.txt")
        if one.marker is not None and one.name not in scripts.licences.BY_HAND
    }

    assert [name for name in sorted(depends) if not is_always_there(scripts, lock, name)] == []


def is_always_there(scripts: SimpleNamespace, lock: str, name: str) -> bool:
    """Whether each Python that tuner supports has a version of it, on Linux."""
    markers = [
        one.marker for one in scripts.locked.read_lock(REQUIREMENTS / f"{lock}.txt") if one.name == name
    ]
    return all(
        any(marker is None or scripts.sbom._holds(Marker(marker), python, "") for marker in markers)
        for python in scripts.sbom.PYTHONS
    )


def test_the_page_of_licences_has_every_package_of_the_locks_once(scripts: SimpleNamespace) -> None:
    page = (ROOT / "requirements" / "licences.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S+) \| (\d\S*) \|", page, re.MULTILINE)

    locked = {
        (package.name, package.version)
        for lock in ("run", "build", "fleet", "dev")
        for package in scripts.locked.read_lock(REQUIREMENTS / f"{lock}.txt")
    }
    assert sorted(rows) == sorted(locked)


@pytest.mark.parametrize("expression", ["GPL-3.0-only", "MIT AND AGPL-3.0-or-later", "SSPL-1.0 OR MIT"])
def test_a_licence_that_nobody_has_looked_at_stops_the_page(
    scripts: SimpleNamespace, expression: str
) -> None:
    with raises(scripts.licences.UnknownLicence, wording("packages.licence-unknown")):
        scripts.licences.asks_more(expression)


def test_of_a_choice_of_licences_the_first_is_taken_and_all_that_are_joined(scripts: SimpleNamespace) -> None:
    assert scripts.licences.asks_more("MIT OR SSPL-1.0") == ()
    assert scripts.licences.asks_more("MIT AND MPL-2.0") == ("MPL-2.0",)


def wheel(folder: Path, program: bytes) -> Path:
    """A wheel that needs what tuner's needs, with one program."""
    path = folder / "proctuner-0.1.0-py3-none-linux_x86_64.whl"
    metadata = (
        "Metadata-Version: 2.4\nName: proctuner\nVersion: 0.1.0\n"
        "Requires-Dist: rich>=13.9\nRequires-Dist: redis>=5; extra == 'redis'\n\n"
    )
    with zipfile.ZipFile(path, "w") as archive:  # a ZipInfo has a date of its own, always the same
        archive.writestr(zipfile.ZipInfo("proctuner-0.1.0.dist-info/METADATA"), metadata)
        archive.writestr(zipfile.ZipInfo("proctuner-0.1.0.data/scripts/crash-stackwalk"), program)
    return path


def test_the_bill_names_what_is_locked_with_hash_licence_and_who_needs_it(
    scripts: SimpleNamespace, tmp_path: Path
) -> None:
    packages = scripts.locked.read_lock(REQUIREMENTS / "fleet.txt")

    bill = scripts.sbom.bill(wheel(tmp_path, b"\x7fELF /lib64/ld-linux-x86-64.so.2"), packages, WRITTEN)

    components = {part["bom-ref"]: part for part in bill["components"]}
    on_linux = {
        f"pkg:pypi/{one.name}@{one.version}" for one in packages if one.marker != "sys_platform == 'win32'"
    }
    assert set(components) == on_linux
    assert all(part["licenses"][0]["expression"] for part in components.values())
    assert sum(len(part["externalReferences"][0]["hashes"]) for part in components.values()) == sum(
        len(one.sha256) for one in packages if one.marker != "sys_platform == 'win32'"
    )
    scopes = {part["name"]: part["scope"] for part in components.values()}
    assert (scopes["rich"], scopes["pygments"], scopes["redis"]) == ("required", "required", "optional")
    edges = {edge["ref"]: edge["dependsOn"] for edge in bill["dependencies"]}
    assert set(edges) == {*components, "pkg:pypi/proctuner@0.1.0"}
    assert {ref for on in edges.values() for ref in on} <= set(components)
    assert len(edges["pkg:pypi/proctuner@0.1.0"]) == 2  # rich, and redis for its extra


def test_a_program_that_brings_the_c_library_along_puts_it_on_the_bill(
    scripts: SimpleNamespace, tmp_path: Path
) -> None:
    bill = scripts.sbom.bill(wheel(tmp_path, b"\x7fELF, static"), (), WRITTEN)

    parts = {part["name"]: part for part in bill["components"]}
    assert list(parts) == ["glibc", "libgcc"]
    assert parts["libgcc"]["licenses"] == [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}]
    edges = {edge["ref"]: edge["dependsOn"] for edge in bill["dependencies"]}
    assert edges["pkg:pypi/proctuner@0.1.0"] == ["glibc", "libgcc"]
    assert set(edges) == {"pkg:pypi/proctuner@0.1.0", "glibc", "libgcc"}


def test_where_nobody_says_which_c_library_or_compiler_it_was_the_bill_says_unknown(
    scripts: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_musl(name: str) -> str:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "confstr", of_musl)
    monkeypatch.setenv("CC", str(tmp_path / "none"))

    bill = scripts.sbom.bill(wheel(tmp_path, b"\x7fELF, static"), (), WRITTEN)

    assert [(part["bom-ref"], part["version"]) for part in bill["components"]] == [
        ("libc", "unknown"),
        ("libgcc", "unknown"),
    ]


def test_the_same_wheel_and_locks_give_the_same_bill(scripts: SimpleNamespace, tmp_path: Path) -> None:
    one, other = (tmp_path / "a", tmp_path / "b")
    bills = []
    for folder in (one, other):
        folder.mkdir()
        packages = scripts.locked.read_lock(REQUIREMENTS / "fleet.txt")
        bills.append(json.dumps(scripts.sbom.bill(wheel(folder, b"\x7fELF"), packages, WRITTEN)))
    later = scripts.sbom.bill(wheel(one, b"\x7fELF"), (), WRITTEN)

    assert (
        json.loads(bills[0])["serialNumber"] == json.loads(bills[1])["serialNumber"] != later["serialNumber"]
    )


def asked(scripts: SimpleNamespace, *pins: str) -> list[Any]:
    """Packages of a lock, `name==version` each."""
    return [scripts.locked.Locked(*pin.split("=="), None, ("0" * 64,)) for pin in pins]


def test_an_audit_without_advisories_is_no_clean_one(scripts: SimpleNamespace) -> None:
    skipped = {"name": "rich", "skip_reason": "Dependency not found on PyPI"}
    report = json.dumps({"dependencies": [skipped, {"name": "click", "version": "8.5.1", "vulns": []}]})
    packages = asked(scripts, "rich==15.0.0", "click==8.5.1")

    code, text = scripts.audit.told("run", scripts.audit.answer_of(report, packages))

    assert code == 3
    assert text == wording("packages.no-advisories-for-some")
    assert scripts.audit.told("run", "no route to host")[0] == 3
    assert scripts.audit.told("run", scripts.audit.answer_of('{"dependencies": []}', []))[0] == 3


def test_an_audit_names_what_is_known_and_where_it_is_mended(scripts: SimpleNamespace) -> None:
    fault = {"id": "PYSEC-2026-1", "fix_versions": ["8.5.2"], "aliases": [], "description": ""}
    report = json.dumps({"dependencies": [{"name": "click", "version": "8.5.1", "vulns": [fault]}]})
    packages = asked(scripts, "click==8.5.1")

    code, text = scripts.audit.told("run", scripts.audit.answer_of(report, packages))

    assert (code, text) == (1, wording("packages.mended-in"))


def test_an_audit_of_packages_that_were_all_looked_up_is_clean(scripts: SimpleNamespace) -> None:
    report = json.dumps({"dependencies": [{"name": "click", "version": "8.5.1", "vulns": []}]})

    assert scripts.audit.told("run", scripts.audit.answer_of(report, asked(scripts, "click==8.5.1"))) == (
        0,
        wording("packages.looked-up", file="run.txt", n=1),
    )


def test_a_package_that_an_audit_leaves_out_is_reported_and_is_not_clean(scripts: SimpleNamespace) -> None:
    report = json.dumps({"dependencies": [{"name": "numpy", "version": "2.4.6", "vulns": []}]})
    packages = asked(scripts, "numpy==2.4.6", "numpy==2.5.5")

    code, text = scripts.audit.told("run", scripts.audit.answer_of(report, packages))

    assert code == 3
    assert wording("packages.left-out-by-audit") in end_of(text)


#: reads requirements as pip-audit does: what a marker keeps off this Python is left out without a word
LEAVES_OUT = """
import json, sys
from packaging.requirements import Requirement

found = []
for option, path in zip(sys.argv, sys.argv[1:]):
    names = set()
    lines = open(path).read().replace("\\\\\\n", " ").splitlines() if option == "-r" else ()
    for line in lines:
        if "==" in line and not line.lstrip().startswith("#"):
            one = Requirement(line.split("--hash")[0])
            if one.marker is None or one.marker.evaluate():
                assert one.name not in names, f"package {one.name} has duplicate requirements"
                names.add(one.name)
                version = str(one.specifier).removeprefix("==")
                found.append({"name": one.name, "version": version, "vulns": []})
print(json.dumps({"dependencies": found}))
"""


@pytest.mark.parametrize("lock", ["run", "dev"])
def test_packages_of_other_pythons_are_looked_up_too(
    scripts: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    (tmp_path / "pip_audit.py").write_text(LEAVES_OUT, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    packages = scripts.locked.read_lock(REQUIREMENTS / f"{lock}.txt")
    assert [one for one in packages if one.name == "numpy" and "< '3.12'" in one.marker]

    code, text = scripts.audit.told(lock, scripts.audit.ask(lock, "pypi"))

    assert (code, text) == (0, wording("packages.looked-up", file=f"{lock}.txt", n=len(packages)))
