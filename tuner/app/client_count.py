"""The number of clients of a new study, found before anything is measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.core.domain.records import StudyRecord
from tuner.core.text.stored_config import parse_stored_config
from tuner.ports import Warn

if TYPE_CHECKING:
    from tuner.adapters.feeders.http import HttpFeeder
    from tuner.ports import Box


def with_clients_found(
    box: Box,
    feeder: HttpFeeder,
    record: StudyRecord,
    warn: Warn,
    say: Callable[[str], object],
    stop_requested: Callable[[], bool],
) -> StudyRecord:
    """*record* with the number of clients that load its layouts, where a closed loop lacks one.

    Where it cannot be found, the record and the feeder stay with the least that gives each thread a request.
    """
    from tuner.core.errors import MeasurementError
    from tuner.core.messages.feeders import clients_not_found
    from tuner.core.settings.clients import FOUND, first_clients, render_found
    from tuner.study.launch.client_search import describe_search, find_clients

    if not feeder.lacks_clients:
        return record
    say("Looking for the number of clients that loads every layout ...")
    try:
        found = find_clients(box, feeder, record, warn, stop_requested)
    except MeasurementError as error:
        n_clients = first_clients(record.layouts)
        warn(*clients_not_found(error.problem, n_clients))
        return _with(record, n_clients, {})
    if found is None:
        return record
    say(f"{describe_search(found)}.")
    feeder.use_found(found)
    return _with(record, found.clients, {FOUND: render_found(found)})


def _with(record: StudyRecord, n_clients: int, provenance: dict[str, str]) -> StudyRecord:
    config = parse_stored_config(record.config)
    config["service"]["feeder"]["clients"] = n_clients
    return replace(
        record,
        config=json.dumps(config, sort_keys=True, separators=(",", ":")),
        provenance={**record.provenance, **provenance},
    )
