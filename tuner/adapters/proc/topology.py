"""CPUs that share a physical core (SMT), read from /sys."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def read_siblings(cpus: Iterable[int], *, sys: Path = Path("/sys")) -> dict[int, frozenset[int]] | None:
    """Return for each of *cpus* all CPUs of its physical core, itself included.

    None: unknown for one of them, as in some sandboxes. A hypervisor may hide the cores that CPUs share.
    """
    found = {}
    for cpu in cpus:
        file = sys / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        with suppress(OSError, ValueError):
            found[cpu] = _cpu_list(file.read_text(encoding="ascii").strip())
        if cpu not in found:
            return None
    return found


def n_physical_cores(cpus: Iterable[int], *, sys: Path = Path("/sys")) -> int | None:
    """Return the number of physical cores to which *cpus* belong; None: unknown."""
    siblings = read_siblings(cpus, sys=sys)
    return None if siblings is None else len(set(siblings.values()))


def _cpu_list(text: str) -> frozenset[int]:
    """Parse a set of CPUs in the kernel's notation, such as ``0,4-6``.

    Raises:
        ValueError: *text* has another form.
    """
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)
