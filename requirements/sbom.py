"""Writes the bill of materials (CycloneDX 1.6, JSON) of a wheel with all that is locked for it.

python requirements/sbom.py dist/proctuner-VERSION-py3-none-PLATFORM.whl > dist/proctuner-VERSION.cdx.json

The same wheel and locks on the same box give the same bytes: its date is SOURCE_DATE_EPOCH, its serial number
comes from what it says. Packages that only an extra asks for are optional. Run it in the environment of
`make test`, on the box that built the wheel: a program does not say which C library and which runtime of GCC
it holds, and their versions here are those of the box.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Iterable, Mapping
from email.parser import Parser
from pathlib import Path
from typing import Any

from licences import UnknownLicence, licence_of
from locked import HERE, Locked, normalised, read_lock
from packaging.markers import Marker
from packaging.requirements import Requirement

LOCK = "fleet.txt"  #: the widest lock of what is installed with tuner
#: Pythons that tuner supports: a package is in the bill when one of them has it, on Linux
PYTHONS = ("3.11.0", "3.11.3", "3.12.0", "3.13.0", "3.14.0", "3.15.0")
EXTRAS = ("redis", "rabbitmq", "postgresql", "fleet")  #: those the lock covers


def bill(wheel: Path, packages: Iterable[Locked], written: datetime.datetime) -> dict[str, Any]:
    """What *wheel* brings and needs, as a CycloneDX document."""
    metadata = _metadata(wheel)
    needed = [package for package in packages if _is_possible(package)]
    refs = {package: f"pkg:pypi/{package.name}@{package.version}" for package in needed}
    by_name: dict[str, list[str]] = {}
    for package, ref in refs.items():
        by_name.setdefault(package.name, []).append(ref)
    root = f"pkg:pypi/proctuner@{metadata['Version']}"
    asked = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    edges = {root: _refs(asked, EXTRAS, by_name)}
    edges |= {ref: _refs(_requirements(package), (), by_name) for package, ref in refs.items()}
    always = _reached(_refs(asked, (), by_name), edges)
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": written.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycles": [{"phase": "build"}],
            "component": _itself(wheel, metadata["Version"], root),
        },
        "components": [_component(package, ref, ref in always) for package, ref in refs.items()],
        "dependencies": [{"ref": ref, "dependsOn": sorted(on)} for ref, on in edges.items()],
    }
    if _is_static(wheel):
        for part in (_libc(), _libgcc()):
            document["components"].append(part)
            document["dependencies"][0]["dependsOn"].append(part["bom-ref"])
            document["dependencies"].append({"ref": part["bom-ref"], "dependsOn": []})
    said = json.dumps(document, sort_keys=True)
    return {"serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, said)}", **document}


def _metadata(wheel: Path) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode("utf-8"))


def _is_possible(package: Locked) -> bool:
    return package.marker is None or any(_holds(Marker(package.marker), python, "") for python in PYTHONS)


def _holds(marker: Marker, python: str, extra: str) -> bool:
    short = ".".join(python.split(".")[:2])
    here = {"python_version": short, "python_full_version": python, "extra": extra}
    return marker.evaluate({**here, "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"})


def _requirements(package: Locked) -> list[Requirement]:
    try:
        return [Requirement(text) for text in importlib.metadata.requires(package.name) or []]
    except importlib.metadata.PackageNotFoundError:
        return []  # of another Python than this one: async-timeout, which needs nothing


def _refs(asked: Iterable[Requirement], extras: Iterable[str], by_name: Mapping[str, list[str]]) -> list[str]:
    """What of the lock is asked for, with or without extras, on any Python that tuner supports."""
    found: set[str] = set()
    for one in asked:
        wanted = one.marker is None or any(
            _holds(one.marker, python, extra) for python in PYTHONS for extra in ("", *extras)
        )
        if wanted:
            found.update(by_name.get(normalised(one.name), ()))
            if "binary" in one.extras:  # psycopg[binary]
                found.update(by_name.get(f"{normalised(one.name)}-binary", ()))
    return sorted(found)


def _reached(begin: Iterable[str], edges: Mapping[str, list[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(begin)
    while waiting:
        if (ref := waiting.pop()) not in found:
            found.add(ref)
            waiting += edges.get(ref, [])
    return found


def _itself(wheel: Path, version: str, ref: str) -> dict[str, Any]:
    return {
        "type": "application",
        "bom-ref": ref,
        "name": "proctuner",
        "version": version,
        "purl": ref,
        "licenses": [{"license": {"id": "MIT"}}],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
        "properties": [{"name": "tuner:wheel", "value": wheel.name}],
    }


def _component(package: Locked, ref: str, is_required: bool) -> dict[str, Any]:
    properties = [{"name": "tuner:lock", "value": f"requirements/{LOCK}"}]
    if package.marker is not None:
        properties.append({"name": "tuner:only-where", "value": package.marker})
    return {
        "type": "library",
        "bom-ref": ref,
        "name": package.name,
        "version": package.version,
        "scope": "required" if is_required else "optional",
        "licenses": [{"expression": licence_of(package)}],
        "purl": ref,
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{package.name}/{package.version}/#files",
                "comment": "every file that the lock allows",
                "hashes": [{"alg": "SHA-256", "content": sha256} for sha256 in package.sha256],
            }
        ],
        "properties": properties,
    }


def _is_static(wheel: Path) -> bool:
    """Whether a program of the wheel brings the C library along: it names no interpreter to load one."""
    with zipfile.ZipFile(wheel) as archive:
        programs = [archive.read(name) for name in archive.namelist() if ".data/scripts/" in name]
    return any(program[:4] == b"\x7fELF" and b"/ld-" not in program for program in programs)


def _libc() -> dict[str, Any]:
    """The C library of the box that built it; another one than glibc does not say what it is."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):  # musl: the name is not known there
        name, version = "", ""
    if not version:
        return _linked("libc", "the C library of the box that built it", "unknown", None)
    return _linked("glibc", name, version, "LGPL-2.1-or-later")


def _libgcc() -> dict[str, Any]:
    """GCC's runtime, of the compiler of the box that built it."""
    compiler = os.environ.get("CC", "cc").split()
    try:
        done = subprocess.run([*compiler, "-dumpfullversion"], capture_output=True, text=True, check=False)
    except OSError:
        version = ""
    else:
        version = done.stdout.strip() if done.returncode == 0 else ""
    return _linked("libgcc", "libgcc", version or "unknown", "GPL-3.0-or-later WITH GCC-exception-3.1")


def _linked(ref: str, name: str, version: str, licence: str | None) -> dict[str, Any]:
    part: dict[str, Any] = {
        "type": "library",
        "bom-ref": ref,
        "name": name,
        "version": version,
        "scope": "required",
        "properties": [
            {
                "name": "tuner:linked",
                "value": "statically, into crash-stackwalk and tuner-simulate, where they were built",
            }
        ],
    }
    return part if licence is None else {**part, "licenses": [{"expression": licence}]}


def main() -> int:
    """Print the bill of the wheel that is named."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.stderr.write("Error: name one wheel\nmake wheel builds it into dist/.\n")
        return 2
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch.isdecimal():
        sys.stderr.write("Error: SOURCE_DATE_EPOCH is not set to whole seconds\nmake sbom sets it.\n")
        return 2
    written = datetime.datetime.fromtimestamp(int(epoch), datetime.UTC)
    try:
        document = bill(Path(sys.argv[1]), read_lock(HERE / LOCK), written)
    except UnknownLicence as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return 2
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
