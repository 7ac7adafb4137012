"""Export of metrics over HTTP and in a file for node_exporter's textfile collector."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import choose_encoder

from tuner.adapters.metrics.families import StudyCollector
from tuner.adapters.metrics.figures import StudyFigures
from tuner.adapters.web.server import PageRequest, Respond, Response, plain
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Sample, Window
from tuner.core.errors import ConfigError
from tuner.core.messages.host import metrics_file

EVERY_S = 10.0  #: interval of writes during a launch; node_exporter is scraped about every 15 s
_OURS = b"# HELP tuner_"  #: first bytes of a file by tuner


def registry_of(figures: StudyFigures) -> CollectorRegistry:
    """Return a new registry that contains only *figures*."""
    registry = CollectorRegistry()
    registry.register(StudyCollector(figures))
    return registry


def answering(figures: StudyFigures) -> Respond:
    """Return the handler of /metrics, in OpenMetrics or Prometheus text format as requested."""
    registry = registry_of(figures)

    def respond(request: PageRequest) -> Response:
        if request.path == "/":
            return plain(HTTPStatus.OK, "tuner: metrics of the study that runs are at /metrics")
        if request.path != "/metrics":
            return plain(HTTPStatus.NOT_FOUND, "metrics are at /metrics")
        encoder, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encoder(registry), content_type=content_type)

    return respond


class MetricsFile:
    """A Progress that keeps *path* up to date; it writes *figures*, which must be updated first.

    The file is replaced atomically, through a name that node_exporter ignores. It is not synced to disk,
    because it is useless after a power failure.

    Raises:
        ConfigError: its name does not end in ``.prom``, it is not tuner's file, or it cannot be written.
    """

    def __init__(self, figures: StudyFigures, path: Path, warn: Callable[[str, str], None]) -> None:
        if path.suffix != ".prom":
            raise ConfigError(
                f"invalid --metrics-file {path}: node_exporter reads only *.prom files",
                hint=f"Use {path.name}.prom, in the folder of its --collector.textfile.directory.",
            )
        _check_written_by_tuner(path)
        self._registry, self._path, self._warn = registry_of(figures), path, warn
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}")
        self._written_s = float("-inf")
        self._is_told = False  # that it cannot be written
        try:
            self._replace()
        except OSError as error:
            raise ConfigError(
                f"--metrics-file {path}: cannot be written: {error.strerror}",
                hint="Its folder must be there, and ours to write to.",
            ) from error

    def launch_started(  # noqa: D102  # documented in ports.Progress, as are the others
        self,
        layout: Layout,  # noqa: ARG002
        block: int,  # noqa: ARG002
        position: int,  # noqa: ARG002
        remaining_s: float | None,  # noqa: ARG002
    ) -> None:
        self.write()

    def in_turns(self, started: Sequence[Layout], works: Layout | None) -> None:
        """Do nothing: written with the next figures."""

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:  # noqa: ARG002, D102
        self._write_if_due()

    def sampled(  # noqa: D102
        self,
        layout: Layout,  # noqa: ARG002
        elapsed_s: float,  # noqa: ARG002
        window_s: float,  # noqa: ARG002
        sample: Sample,  # noqa: ARG002
        items_per_s: float,  # noqa: ARG002
    ) -> None:
        self._write_if_due()

    def window_taken(  # noqa: D102
        self,
        window: Window,  # noqa: ARG002
        n_taken: int,  # noqa: ARG002
        n_planned: int | None,  # noqa: ARG002
        remaining_s: float | None,  # noqa: ARG002
    ) -> None:
        self.write()

    def warning(self, slug: str, text: str) -> None:
        """Do nothing: counted with the next figures."""

    def turn_to(self, box: str) -> None:
        """Do nothing: written with the next figures."""

    def box_left(self, box: str) -> None:
        """Do nothing: written with the next figures."""

    def write(self) -> None:
        """Write the file now; a failure is reported once, and retried the next time."""
        try:
            self._replace()
        except OSError as error:
            if not self._is_told:
                self._is_told = True
                self._warn(*metrics_file(self._path, error.strerror))

    def _write_if_due(self) -> None:
        if time.monotonic() - self._written_s >= EVERY_S:
            self.write()

    def _replace(self) -> None:
        self._written_s = time.monotonic()
        try:
            self._temporary.write_bytes(generate_latest(self._registry))
            os.replace(self._temporary, self._path)
        except OSError:
            with suppress(OSError):
                self._temporary.unlink(missing_ok=True)
            raise


def _check_written_by_tuner(path: Path) -> None:
    """Raise ConfigError if *path* is a file that tuner did not write."""
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait for its writer
            raise ConfigError(f"--metrics-file {path}: is there, and no file", hint="Take another name.")
        with path.open("rb") as file:
            begins = file.read(len(_OURS))
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"--metrics-file {path}: cannot be read: {error.strerror}") from error
    if begins and begins != _OURS:
        raise ConfigError(
            f"--metrics-file {path} is there, and not tuner's", hint="Take another name, or remove it."
        )
