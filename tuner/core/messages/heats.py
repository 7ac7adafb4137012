"""Warnings of heats: layouts that are resident on one host at once, and take turns."""

from __future__ import annotations

from tuner.core.messages.catalogue import warning
from tuner.core.text.figures import pluralize, render_size


@warning(
    "heat-smaller",
    "tuner measures the other layouts of the group afterwards.",
    "Free memory, or use `--slices off`.",
)
def no_memory_for_heat(n: int, free_bytes: float, largest_bytes: float) -> str:
    return (
        f"only {pluralize(n, 'layout')} can be resident at once: {render_size(free_bytes)} of memory is free,"
        f" and a layout takes up to {render_size(largest_bytes)}"
    )


@warning(
    "slices-too-long",
    "The layouts of this group run one after the other.",
    "Use `--slices off`.",
)
def slices_too_long(layout: str, residence_s: float) -> str:
    return f"an item of {layout} takes {residence_s:.2g} s: layouts cannot take turns in slices of seconds"
