"""The use case of `tuner serve`: the adapters and reports of studies as web pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tuner.app.rollouts import starts_of
from tuner.app.study_queries import live_now, overview, study_stamp
from tuner.bootstrap.stores import open_store
from tuner.core.errors import ConfigError
from tuner.core.text.address import Address

if TYPE_CHECKING:
    from tuner.adapters.web.site import Shown
    from tuner.core.model.calibration.calibrated import Calibrated

_WHILE_IT_RUNS = "The model is not fitted while the study runs."
_PATTERN = "*.tuner.db"  #: names of study files in a folder
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Served:
    """The address and access token of the served studies."""

    address: Address
    token: str | None  #: None: access without a token


@contextmanager
def serve_studies(files: Sequence[Path], address: Address) -> Iterator[Served]:
    """Serve the studies *files* (files or folders of studies) at *address* inside the ``with`` block.

    Raises:
        ConfigError: a file is not a study, or the address cannot be used.
    """
    from tuner.adapters.web.server import serving
    from tuner.adapters.web.site import Site, TokenGate
    from tuner.reports.page.index import render_index

    site = Site(_Shelf(files).studies, render_index)
    gate = None if address.is_loopback else TokenGate(site, address.port)
    with serving(address, gate or site, option="--port", of_host="--host") as where:
        yield Served(where, None if gate is None else gate.token)


class _Shelf:
    """The named studies, and the present studies in the named folders."""

    def __init__(self, named: Sequence[Path]) -> None:
        self._named = tuple(named)
        self._shown: dict[Path, Shown] = {}
        if not named:
            raise ConfigError("no study is named")
        for file in named:
            if not file.is_dir():  # the list shows errors of studies in folders
                with open_store(file, read_only=True):  # raises the error of the file
                    pass

    def studies(self) -> Mapping[str, Shown]:
        """Return the studies by name; equal names get parent folders as a prefix until they differ."""
        found: dict[str, Shown] = {}
        for file in self._files():
            if file not in self._shown:
                self._shown[file] = _shown_study(file)
            found[_name(file, found)] = self._shown[file]
        return found

    def _files(self) -> list[Path]:
        files: list[Path] = []
        for one in self._named:
            files += sorted(one.glob(_PATTERN)) if one.is_dir() else [one]
        return list(dict.fromkeys(file.absolute() for file in files))


def _name(file: Path, taken: Container[str]) -> str:
    names = ("/".join(file.parts[-n:]) for n in range(1, len(file.parts)))
    return next((name for name in names if name not in taken), str(file))


def _shown_study(file: Path) -> Shown:
    from tuner.adapters.web.site import Fresh, Shown

    def stamp() -> object:
        live, is_held = live_now(file)
        return study_stamp(file), is_held, None if live is None else live.warnings

    def made(make: Callable[[Path], T]) -> Fresh[T]:
        return Fresh(lambda: _without_folder(make, file), stamp)

    return Shown(page=made(_page), facts=made(_facts), now=lambda: _now(file), summary=made(_summary))


def _without_folder(make: Callable[[Path], T], file: Path) -> T:
    """Return the result of *make*; remove this host's folders from its error texts."""
    try:
        return make(file)
    except ConfigError as error:
        raise ConfigError(error.problem.replace(str(file), file.name), hint=error.hint) from error


def _page(file: Path) -> bytes:
    from tuner.app.model import predict
    from tuner.core.ranking.ranked import parse_question
    from tuner.reports.page import render_page

    question = parse_question(costs="load,memory")
    prediction: Calibrated | str = _WHILE_IT_RUNS
    if live_now(file)[1]:
        seen = overview(file, question=question)
    else:
        seen, prediction = predict(file, question=question)
    return render_page(seen, prediction, starts=starts_of(seen), live=True).encode()


def _facts(file: Path) -> dict[str, Any]:
    """Return the JSON of `tuner rank --json`."""
    from tuner.app.study_queries import rank_file
    from tuner.reports.ranking.ranking_data import render_ranking_json

    facts: dict[str, Any] = json.loads(render_ranking_json(*rank_file(file)))
    return facts


def _now(file: Path) -> dict[str, Any]:
    """Return the present state of the study, as figures and as text."""
    from tuner.core.text.safe_text import visible
    from tuner.reports.live.live import moment_facts
    from tuner.reports.page.blocks import Facts, Text
    from tuner.reports.page.now import now_section

    live, is_held = live_now(file)
    blocks = now_section(live).blocks
    rows = [row for block in blocks if isinstance(block, Facts) for row in block.rows]
    reported = [sentence for block in blocks if isinstance(block, Text) for sentence in block.sentences]
    return {
        "is_measured": is_held,
        "live": None if live is None else moment_facts(live),
        "rows": [[name, visible(value)] for name, value in rows],
        "told": [visible(sentence) for sentence in reported],
    }


def _summary(file: Path) -> dict[str, Any]:
    """Return the entry for the list of studies."""
    from tuner.core.domain.records import is_simulated

    with open_store(file, read_only=True) as store:
        study, windows = store.study(), store.windows()
    return {
        "service": study.service,
        "strategy": study.strategy,
        "simulated": is_simulated(study),
        "created_wall_s": study.created_wall_s,
        "n_layouts": len(study.layouts),
        "n_windows": sum(not window.void for window in windows),
        "n_void": sum(bool(window.void) for window in windows),
        "is_measured": live_now(file)[1],
    }
