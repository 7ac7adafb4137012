"""Colours that people with any colour vision can tell apart, and the words that are read on them.

Categories: Okabe & Ito (2008). Amounts: viridis (van der Walt & Smith, 2015), which also grows in lightness
alone, so that a copy in grey says the same.
"""

from __future__ import annotations

_VIRIDIS = (
    *((68, 1, 84), (72, 40, 120), (62, 73, 137), (49, 104, 142), (38, 130, 142)),
    *((31, 158, 137), (53, 183, 121), (110, 206, 88), (181, 222, 43), (253, 231, 37)),
)

BLUE, SKY, GREEN, YELLOW = "#0072b2", "#56b4e9", "#009e73", "#f0e442"
ORANGE, VERMILLION, PURPLE, GREY = "#e69f00", "#d55e00", "#cc79a7", "#bdc3c9"


def amount_colour(share: float) -> str:
    """Of an amount from 0 to 1."""
    place = min(1.0, max(0.0, share)) * (len(_VIRIDIS) - 1)
    left = min(int(place), len(_VIRIDIS) - 2)
    mixed = (
        round(one + (other - one) * (place - left))
        for one, other in zip(_VIRIDIS[left], _VIRIDIS[left + 1], strict=True)
    )
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def ink_on(colour: str) -> str:
    """Black or white: what has the better contrast on *colour*; at least 4.5 (WCAG 2)."""
    light = luminance(colour)
    return "#000" if (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) else "#fff"


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb``, 0 to 1."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
