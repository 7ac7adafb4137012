"""Warnings of heats: layouts that stay started on one host and take turns."""

from __future__ import annotations

from tuner.core.domain.strategy import Agreement
from tuner.core.messages.catalogue import warning
from tuner.core.text.figures import pluralize, render_size


@warning(
    "heat-smaller",
    "With `--slices auto`, several layouts share the memory. A layout that does not fit into memory "
    "runs later.",
    "Free some memory, or use `--slices off` to run the layouts one after the other.",
)
def no_memory_for_heat(n: int, free_bytes: float, largest_bytes: float) -> str:
    return (
        f"only {pluralize(n, 'layout')} fit into memory at the same time: {render_size(free_bytes)} of "
        f"memory is free, and a layout takes up to {render_size(largest_bytes)}"
    )


@warning(
    "slices-disagree",
    "The two printed ratios differ significantly, with 99 % confidence.",
    "In later studies, use `--slices off`, so that each layout runs alone.",
)
def slices_disagree(seen: Agreement) -> str:
    return (
        f"layouts that stay started disturb each other here: {seen.layout} / {seen.other} is"
        f" {seen.in_slices:.3g} in slices and {seen.alone:.3g} alone; windows in slices count no longer, and"
        " layouts run one after the other from now on"
    )


@warning(
    "slices-too-long",
    "Because of the long items, tuner runs the layouts one after the other.",
    "Use `--slices off`.",
)
def slices_too_long(layout: str, residence_s: float) -> str:
    return (
        f"an item of {layout} takes {residence_s:.2g} s, too long to switch between layouts every few seconds"
    )
