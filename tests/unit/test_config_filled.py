from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.config.legacy import fill_defaults
from tuner.config.load import canonical_json, load_settings
from tuner.core.domain.stored_config import StoredConfig

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.yaml"))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_what_names_everything_stays_as_it_is(config: Path) -> None:
    kept = canonical_json(load_settings(config, {}))

    assert fill_defaults(StoredConfig(kept)).sections == json.loads(kept)


def test_what_an_older_study_did_not_know_is_as_it_is_by_default() -> None:
    kept: dict[str, Any] = json.loads(canonical_json(load_settings(CONFIGS[0], {})))
    whole = json.loads(json.dumps(kept))
    del kept["study"]["objective"], kept["service"]["connections"]
    kept["study"]["was_there_once"] = 3

    found = fill_defaults(StoredConfig.of_sections(kept)).copy_sections()

    assert found["study"].pop("was_there_once") == 3
    assert found == whole


def test_a_probe_is_filled_by_its_kind_and_what_is_not_known_is_left_alone() -> None:
    service = {
        "kind": "script",
        "name": "x",
        "probe": {"kind": "log", "pattern": "done"},
        "variants": {"a": {}},
    }
    found = fill_defaults(StoredConfig.of_sections({"service": service, "other": [1]})).sections

    assert found["service"]["probe"].keys() > {"kind", "pattern"}
    assert found["service"]["variants"] == {"a": {}}
    assert found["other"] == [1]
    assert "study" not in found
    assert fill_defaults(StoredConfig("null")) == StoredConfig("null")
