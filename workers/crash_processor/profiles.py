"""Named sets of options."""

from __future__ import annotations

from collections.abc import Mapping

PROFILES: Mapping[str, Mapping[str, str]] = {
    # The shares of an item in 2014: stackwalker about 80 %, Python (with the GIL) 8-10 %, waiting 10-15 %,
    # scaled to about 60 ms: a pass over a synthetic dump with 560 kB of symbols costs 0.4 ms, each wait some
    # tenths of a millisecond more than requested (bench/crash_processor.py).
    "socorro-2014": {
        "stackwalk_passes": "120",
        "python_cost_ms": "5",
        "fetch_delay_ms": "3.5",
        "save_delay_ms": "3.5",
    },
}
