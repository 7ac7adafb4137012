"""Metrics of a running study, over HTTP or in a file."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.errors import ConfigError
from tuner.ports import Progress, Warn

if TYPE_CHECKING:
    from tuner.core.domain.strategy import Strategy
    from tuner.core.text.address import Address


@dataclass(frozen=True, slots=True)
class MetricsAsked:
    """The places at which metrics are requested."""

    address: Address | None  #: address of the HTTP server; None: no HTTP
    file: Path | None  #: file for node_exporter; None: no file


def parse_metrics_options(address: str | None, file: Path | None, *, is_open: bool) -> MetricsAsked | None:
    """Return the places for metrics that the options name; None: none.

    Raises:
        ConfigError: *address* is invalid, or can be reached from other hosts without *is_open*.
    """
    if address is None and file is None:
        if is_open:
            raise ConfigError("--metrics-open needs --metrics")
        return None
    if address is None:
        return MetricsAsked(None, file)
    from tuner.core.text.address import parse_address

    try:
        where = parse_address(address)
    except ConfigError as error:
        raise ConfigError(f"--metrics: {error.problem}", hint=error.hint) from error
    if not where.is_loopback and not is_open:
        raise ConfigError(
            f"--metrics {where} would show the study to anyone who can reach that address",
            hint="Add --metrics-open if they may; or use 127.0.0.1 and let a tunnel or proxy lead there.",
        )
    return MetricsAsked(where, file)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics that are being served."""

    observers: tuple[Progress, ...]  #: observers of the study's progress, in the order of their calls
    #: receives the windows that the study file already contains
    recall: Callable[[Sequence[WindowRecord]], None]
    url: str | None  #: None: metrics are not served over HTTP
    grew: Callable[[StudyRecord], None]  #: receives the study when its grid has grown


@contextmanager
def serve_metrics(
    asked: MetricsAsked, record: StudyRecord, file: Path, strategy: Strategy, warn: Warn
) -> Iterator[Metrics]:
    """Serve metrics of the study *record*, stored in *file*, inside the ``with`` block.

    Raises:
        ConfigError: the address cannot be used, or the file cannot be written.
    """
    from tuner.adapters.metrics.exposition import MetricsFile, answering
    from tuner.adapters.metrics.figures import Known, StudyFigures
    from tuner.adapters.web.server import serving

    def known() -> Known:
        return Known(strategy.estimates(), strategy.answer())

    figures = StudyFigures(record, file.name, platform.node(), known)
    with ExitStack() as stack:
        reported: list[Progress] = [figures]
        url = None
        if asked.address is not None:
            where = stack.enter_context(serving(asked.address, answering(figures), option="--metrics"))
            url = f"http://{where}/metrics"
        if asked.file is not None:
            kept = MetricsFile(figures, asked.file, warn)
            reported.append(kept)
            stack.callback(kept.write)
        try:
            yield Metrics(tuple(reported), figures.recall, url, figures.grew)
        except BaseException:  # the strategy may be in an inconsistent state
            figures.end(as_planned=False)
            raise
        figures.end(as_planned=True)
