"""A probe is one file: config, launch, reference and the address check of the doctor need no other change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import tuner.adapters.probes
from tuner.adapters.clock import SystemClock
from tuner.adapters.virtual.service import VirtualService, virtual_study
from tuner.bootstrap.parts.services import backend_finder, probe_of
from tuner.config.kinds import StudyName, Surroundings
from tuner.config.load import canonical_json, load_settings, settings_of_study
from tuner.config.settings import ScriptSettings, Settings
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError
from tuner.doctor.surroundings import query_servers

from ..ports import free_port
from ..wording import wording

ROOT = Path(__file__).resolve().parents[2]
MODULE = "tuner.adapters.probes.tide_gauge"
PROBE = '''
"""A made-up probe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Literal

from tuner.config.fields import LongerThanZero
from tuner.config.kinds import ProbeSettings
from tuner.core.domain.window import Reading


class TideGaugeSettings(ProbeSettings):
    """A gauge in the harbour counts the tides."""

    is_alone: ClassVar[bool] = True
    fills_in: ClassVar[tuple[str, ...]] = ("TUNER_TIDE",)
    plain_keys: ClassVar[frozenset[str]] = frozenset({"password"})
    kind: Literal["tide-gauge"]  #: Kind of probe
    harbour: str  #: URL of the harbour
    password: str = "high water"  #: Word that the harbour master wants
    timeout: LongerThanZero = 2.0  #: Time limit of one answer

    @property
    def servers(self):
        return {"harbour": self.harbour}

    def counts_failed(self, _feeder):
        return True

    def build(self, _settings, around):
        return TideGauge(around.clock, self.timeout)


class TideGauge:
    environment: Mapping[str, str] = {"TUNER_TIDE": "low"}

    def __init__(self, clock, timeout_s):
        self.clock, self.timeout_s = clock, timeout_s

    @contextmanager
    def counting(self, layout):
        yield self

    def pids(self):
        return frozenset()

    def read(self):
        return Reading(self.clock.monotonic_s(), 7, 1)
'''


@pytest.fixture
def harbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Put the made-up probe among the probes, and give the URL of a harbour where nobody answers."""
    folder = tmp_path / "probes"
    folder.mkdir()
    (folder / "tide_gauge.py").write_text(PROBE)
    monkeypatch.setattr(tuner.adapters.probes, "__path__", [*tuner.adapters.probes.__path__, str(folder)])
    yield f"redis://127.0.0.1:{free_port()}/0"
    sys.modules.pop(MODULE, None)
    vars(tuner.adapters.probes).pop("tide_gauge", None)


def load(folder: Path, probe: str, more: str = "") -> Settings:
    path = folder / "s.yaml"
    path.write_text(
        f"service:\n  kind: script\n  name: web\n  command: [run, '{{TUNER_TIDE}}']\n  probe: {probe}\n{more}"
    )
    return load_settings(path, {})


def problem_of(folder: Path, probe: str, more: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, probe, more)
    return caught.value.problem.removeprefix(f"{folder}/s.yaml:")


def test_a_config_may_name_it(harbour: str, tmp_path: Path) -> None:
    settings = load(tmp_path, f"{{kind: tide-gauge, harbour: '{harbour}', timeout: 5s}}")

    assert isinstance(settings.service, ScriptSettings)
    assert settings.service.probe.model_dump() == {
        "kind": "tide-gauge",
        "harbour": harbour,
        "password": "high water",
        "timeout": "5s",
    }
    assert settings.service.probe_fields == ("TUNER_TIDE",)
    assert '"password":"high water"' in canonical_json(settings)
    assert settings_of_study(canonical_json(settings), "study") == settings


def test_mistakes_in_its_keys_are_reported_with_their_place(harbour: str, tmp_path: Path) -> None:
    missing = problem_of(tmp_path, "{kind: tide-gauge}")
    misspelt = problem_of(tmp_path, f"{{kind: tide-gauge, harbour: '{harbour}', timeot: 5s}}")
    kinds = problem_of(tmp_path, "{kind: tide-gage}")

    assert missing == "5:3: service.probe.harbour: " + wording("config.missing")
    assert misspelt.endswith("did you mean timeout?")
    assert "statsd, tide-gauge, uwsgi; did you mean tide-gauge?" in kinds


def test_what_it_fills_in_and_what_it_shares_are_checked(harbour: str, tmp_path: Path) -> None:
    gauge = f"{{kind: tide-gauge, harbour: '{harbour}'}}"

    assert "probe tide-gauge only" in problem_of(tmp_path, "{kind: command, command: x}")
    assert "one tide-gauge only" in problem_of(tmp_path, gauge, f"  cross_check: {gauge}\n")
    assert load(tmp_path, gauge, "brake: {errors: 5%}\n").brake is not None


def test_a_launch_is_counted_by_it(harbour: str, tmp_path: Path) -> None:
    settings = load(tmp_path, f"{{kind: tide-gauge, harbour: '{harbour}'}}")
    layout = Layout(1, 1)
    around = Surroundings(
        spec=ServiceSpec("web", ("run",)),
        record=virtual_study(VirtualService({layout: 1.0})),
        clock=SystemClock(),
        counters=tmp_path,
        scratch=tmp_path,
        logs=tuple,
        study=StudyName("", ""),
        warn=lambda _slug, _text: None,
    )

    with probe_of(settings.service.probe, settings, around).counting(layout) as counting:
        reading = counting.read()

    assert (reading.n_done_total, reading.n_failed_total) == (7, 1)
    assert counting.environment == {"TUNER_TIDE": "low"}


def test_the_doctor_asks_its_server(harbour: str, tmp_path: Path) -> None:
    settings = load(tmp_path, f"{{kind: tide-gauge, harbour: '{harbour}'}}")
    spec = ServiceSpec("web", ("run",))

    (seen,) = query_servers(settings, spec)

    assert (seen.named_by, seen.needed_by_tuner) == ("service.probe.harbour", True)
    assert seen.problem
    assert backend_finder(settings, spec, lambda _slug, _text: None) is not frozenset


def test_the_reference_has_its_keys(harbour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_from_file_location("config_keys_anew", ROOT / "docs" / "reference" / "config_keys.py")
    assert spec is not None
    assert spec.loader is not None
    page = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, page)
    spec.loader.exec_module(page)

    text = page.render_config()

    assert "**`kind: tide-gauge`**: A gauge in the harbour counts the tides." in text
    assert "- `harbour` (text; **required**): URL of the harbour." in text
