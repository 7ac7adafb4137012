"""What the pages for people name must be there, and what is there must be named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tuner.cli import COMMANDS
from tuner.config.load import canonical_json, load_settings, settings_of_study
from tuner.config.settings import ScriptSettings

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "deploy").glob("*.md"),
        *(ROOT / "bench").glob("*.md"),
    ]
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_every_file_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
    files = re.findall(r"`((?:tuner|workers|configs|docs|deploy|bench|tests)/[\w./-]+\w)`", text)

    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_every_bench_has_a_line_on_the_page_of_benches() -> None:
    page = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")

    assert [path.name for path in (ROOT / "bench").glob("*.py") if path.name not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_types_exists(page: Path) -> None:
    typed = re.findall(r"(?:^    |`|/bin/)tuner ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE)

    assert set(typed) <= {command.name for command in COMMANDS}


PROBES_PAGE = (ROOT / "docs" / "probes.md").read_text(encoding="utf-8")
EXAMPLES_OF_PROBES = re.findall(r"^```yaml\n(.*?)^```", PROBES_PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES_OF_PROBES)
def test_every_example_of_a_probe_is_a_config(example: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(example, encoding="utf-8")

    settings = load_settings(tmp_path / "s.yaml", {})
    service = settings.service

    assert isinstance(service, ScriptSettings)
    assert f"    kind: {service.probe.kind}\n" in example
    assert settings_of_study(canonical_json(settings), "s.tuner.db") == settings


def test_every_kind_of_probe_has_a_section_with_an_example() -> None:
    (probe,) = (field for name, field in ScriptSettings.model_fields.items() if name == "probe")
    kinds = {kind.model_fields["kind"].annotation.__args__[0] for kind in probe.annotation.__args__}

    shown = {re.search(r"    kind: (\S+)\n", example)[1] for example in EXAMPLES_OF_PROBES}
    assert shown == kinds
