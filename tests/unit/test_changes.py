from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuner.bootstrap.stores import open_store
from tuner.config.legacy import fill_defaults
from tuner.config.load import canonical_json, load_settings
from tuner.core.domain.stored_config import StoredConfig, list_changed_settings

from ..wording import wording


def test_the_same_settings_differ_in_nothing_whatever_their_order() -> None:
    assert list_changed_settings({"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": [1, 2]}, "a": 1}) == []


def test_each_setting_that_differs_is_named_with_both_values() -> None:
    kept = {"study": {"window": 600.0, "seed": 1}, "service": {"name": "x"}}
    given = {"study": {"window": 60.0, "seed": 1}, "service": {"name": "y"}}

    assert list_changed_settings(kept, given) == [
        wording("grid.setting-changed", setting="study.window", was="600.0", given="60.0"),
        wording("grid.setting-changed", setting="service.name", was='"x"', given='"y"'),
    ]


def test_a_setting_that_is_new_gone_or_unset_is_named_too() -> None:
    kept, given = {"a": 1, "b": None, "d": {"e": 1}}, {"b": 2, "c": [3], "d": None}

    assert list_changed_settings(kept, given) == [
        wording("grid.setting-gone", setting="a", was=1),
        wording("grid.setting-new", setting="b", given=2),
        wording("grid.setting-gone", setting="d", was='{"e": 1}'),
        wording("grid.setting-new", setting="c", given="[3]"),
    ]


def test_a_list_that_differs_is_shown_whole() -> None:
    assert list_changed_settings({"a": [1, 2]}, {"a": [2, 1]}) == [
        wording("grid.setting-changed", setting="a", was="[1, 2]", given="[2, 1]")
    ]


def test_a_setting_that_an_older_study_did_not_have_and_nobody_sets_is_no_change() -> None:
    assert list_changed_settings({"a": 1}, {"a": 1, "b": None}) == []
    assert list_changed_settings({"a": 1, "b": None}, {"a": 1}) == []


@pytest.mark.parametrize("name", ["gunicorn-2-cores-busy", "crash-processor-2-cores-busy"])
def test_a_study_of_an_older_tuner_may_be_gone_on_with_by_the_config_it_was_begun_with(
    tmp_path: Path, name: str
) -> None:
    """What was not there to be set then is as it is by default now; a load generator kept its connections."""
    file = Path(__file__).parents[2] / "bench" / "studies" / f"{name}.tuner.db"
    with open_store(file, read_only=True) as store:
        kept = store.study().config
    sections = kept.copy_sections()
    written = {key: value for key, value in sections["service"].items() if value not in (None, [], {})}
    written.pop("cautions", None)
    if written.get("feeder", {}).get("kind") == "http":
        written["feeder"]["connections"] = "kept"
    config = tmp_path / "as-it-was.json"
    config.write_text(json.dumps({**sections, "service": written, "backends": None}), encoding="utf-8")

    now = StoredConfig(canonical_json(load_settings(config, {})))

    assert list_changed_settings(fill_defaults(kept).sections, now.sections) == []
