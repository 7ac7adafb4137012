"""Disk space and loading time of packages: python bench/packages.py [NAME ...]

pip downloads each package without its dependencies, to a temporary folder. The default list has the packages
whose size docs/ state, a few hundred MB in all. The loading time is the CPU of a new interpreter minus that
of an empty one, in alternating runs, as a median; only for packages that are installed with tuner.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from statistics import median

WEIGHED = ("scipy", "pyelftools", "matplotlib", "pyarrow", "pandas", "fastparquet", "cramjam", "ray")
MODULES = {"pyelftools": "elftools.elf.elffile", "scipy": "scipy.optimize"}  #: what tuner loads of them


def size_bytes(package: str) -> tuple[int, int]:
    """Return the size of the wheel, and of the installed package including byte code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*pip, "download", "--no-deps", "--only-binary", ":all:", "--dest", folder / "wheel", package],
            check=True,
        )
        (wheel,) = (folder / "wheel").iterdir()
        subprocess.run([*pip, "install", "--no-deps", "--target", folder / "installed", wheel], check=True)
        installed = sum(path.lstat().st_size for path in (folder / "installed").rglob("*") if path.is_file())
        return wheel.stat().st_size, installed


def child_cpu_s(code: str) -> float:
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def load_s(module: str, rounds: int) -> float:
    """CPU that loading it adds to an interpreter."""
    child_cpu_s(f"import {module}")  # its byte code and its pages are there from now on
    return median(child_cpu_s(f"import {module}") - child_cpu_s("pass") for _ in range(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description="What packages take of a disk, and what loading them takes.")
    parser.add_argument("packages", nargs="*", metavar="NAME", default=WEIGHED)
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    print(f"{'':16}{'wheel':>11}{'installed':>12}{'loaded, CPU':>14}")
    for package in options.packages:
        wheel, installed = size_bytes(package)
        module = MODULES.get(package, package)
        is_here = find_spec(module.partition(".")[0]) is not None
        loaded = f"{load_s(module, options.rounds):.2f} s" if is_here else "not here"
        print(f"{package:16}{wheel / 1e6:8.1f} MB{installed / 1e6:9.1f} MB{loaded:>14}", flush=True)


if __name__ == "__main__":
    main()
