"""Whether a master runs beside the workers, by what a study keeps of its settings."""

from __future__ import annotations

import pytest

from tuner.core.domain.layout import parse_layout
from tuner.core.domain.stored_config import StoredConfig, StoredService


@pytest.mark.parametrize(
    ("service", "layout", "expected"),
    [
        ({}, "1x2", False),
        ({"programs": "one", "workers": None}, "1x2", True),  # gunicorn
        ({"programs": "one", "workers": "programs"}, "1x2", False),
        ({"programs": "each", "workers": "pools"}, "2x4", True),  # nodes of Celery
        ({"programs": "each", "workers": "children"}, "1x-", True),
        ({"programs": "one", "workers": "children-if-several"}, "1x-", False),  # uvicorn
        ({"programs": "one", "workers": "children-if-several"}, "2x-", True),
        ({"programs": "each", "variants": {"prefork": {"programs": "one"}}}, "2x-@prefork", True),
        (
            {"programs": "each", "variants": {"prefork": {"programs": "one"}, "threads": {}}},
            "2x2@threads",
            False,
        ),
    ],
)
def test_a_master_runs_where_the_workers_are_not_the_programs(
    service: dict[str, object], layout: str, expected: bool
) -> None:
    assert StoredService(service).has_master(parse_layout(layout)) is expected


@pytest.mark.parametrize("config", ["", "{}", '{"service": "x"}'])
def test_a_study_that_tells_nothing_of_its_service_has_none(config: str) -> None:
    assert not StoredConfig(config).service.has_master(parse_layout("1x1"))
