"""Layouts that differ in their threads only, of a command that is not told how many."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence

from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec

READ_BY_PROGRAMS = ("TUNER_THREADS", "TUNER_LAYOUT")  #: variables that a program may read the number from


def find_alike(
    spec: ServiceSpec, layouts: Sequence[Layout], mentions: Callable[[ServiceSpec], bool]
) -> tuple[Layout, Layout] | None:
    """Two of *layouts* whose processes the service *spec* starts alike, whatever threads they should have.

    None: each is told its threads, in its command or environment, or *mentions* that it reads the variable.
    """
    for variant in dict.fromkeys(layout.variant for layout in layouts if layout.has_threads):
        of_variant = [layout for layout in layouts if layout.has_threads and layout.variant == variant]
        other = next((one for one in of_variant if one.threads != of_variant[0].threads), None)
        if other is None:
            continue  # one number of threads: the command may well have it
        own = spec.of(of_variant[0])
        if not _is_given_threads(own) and not mentions(own):
            return of_variant[0], other
    return None


def _is_given_threads(spec: ServiceSpec) -> bool:
    words = (*spec.command, *spec.environment.values())
    return any(name == "threads" for word in words for _, name, _, _ in string.Formatter().parse(word))
