"""Items that failed, beside those that a ranking counts."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.domain.layout import Layout
from tuner.core.text.figures import list_names, percent, pluralize
from tuner.core.windows.launch_sums import LaunchTally

FEW_RATIO = 0.01  #: of the items that ended: fewer failed ones go without saying, as with `requests-failed`
_MOST_NAMED = 3  #: layouts


def describe_failures(launches: Sequence[LaunchTally]) -> tuple[str, ...]:
    """Say which share of the items failed; nothing where few did, or the probe tells none apart."""
    sums: dict[Layout, tuple[int, int]] = {}
    for one in launches:
        n_done, n_failed = sums.get(one.layout, (0, 0))
        sums[one.layout] = n_done + one.n_done, n_failed + one.n_failed
    ratios = {
        layout: n_failed / (n_done + n_failed) for layout, (n_done, n_failed) in sums.items() if n_failed
    }
    many = {layout: ratio for layout, ratio in ratios.items() if ratio >= FEW_RATIO}
    if not many:
        return ()
    if len(many) > _MOST_NAMED:
        least, most = percent(min(many.values())), percent(max(many.values()))
        where = f"{least} to {most} of them in {pluralize(len(many), 'layout')}"
    else:
        where = list_names(
            [f"{percent(ratio)} of them in {layout}" for layout, ratio in sorted(many.items())]
        )
    return (f"Items that failed, or are to be tried again, are not in the throughput: {where}.",)
