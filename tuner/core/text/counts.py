"""Which numbers can be counts of items."""

from __future__ import annotations

import math

LARGEST_COUNT = 2**53  #: up to it a float tells every whole number; beyond it one item more is not seen


def is_count(number: float) -> bool:
    """Whether *number* can be a total of items: neither negative nor beyond what is told exactly."""
    return math.isfinite(number) and 0 <= number <= LARGEST_COUNT
