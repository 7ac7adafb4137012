"""How the service of a study is started in one of its layouts, for good."""

from __future__ import annotations

import json

from tuner.core.errors import ConfigError
from tuner.core.layout import Layout
from tuner.core.records import StudyRecord
from tuner.core.rollout import Rollout


def in_production(record: StudyRecord, layout: Layout) -> Rollout | str:
    """What puts *layout* into production, by what the study *record* kept; else why that is not known."""
    from tuner.services.catalogue import known_services
    from tuner.services.rolling_out import rollout_of

    section = (json.loads(record.config) if record.config else {}).get("service")
    if not section:
        return "No service ran: measure this layout on a real host before you apply it."
    try:
        return rollout_of(section, layout, record.cores, known_services())
    except ConfigError as error:
        return f"Cannot print the command here: {error.problem}."
