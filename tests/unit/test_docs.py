"""What the pages for people name must be there, and what is there must be named."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from tuner.adapters.load.traffic import read_requests
from tuner.bootstrap.configs import settings_of
from tuner.cli import COMMANDS
from tuner.config.kinds import PROBES, kind_of
from tuner.config.load import canonical_json, load_settings, settings_of_study
from tuner.config.settings import ScriptSettings
from tuner.core.text.http_request import parse_url

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "deploy").rglob("*.md"),
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


def test_no_page_and_no_message_has_pip_fetch_the_other_program_of_that_name() -> None:
    """`tuner` of PyPI tunes instruments; ours is `proctuner`."""
    reported = {"CHANGELOG.md", "docs/adr/20261126-distribution-name.md"}  # of the time before, and why not
    typed = re.compile(r"pip (?:install|download) (?:-\S+ )*'?tuner(?![\w-])")
    files = [*PAGES, *(path for name in ("tuner", "workers") for path in (ROOT / name).rglob("*.py"))]
    files += (ROOT / "configs").rglob("*.yaml")

    found = {str(path.relative_to(ROOT)) for path in files if typed.search(path.read_text("utf-8"))}
    assert found - reported == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_types_exists(page: Path) -> None:
    text = re.sub(r"^- `[^`]*…[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)  # errors
    typed = re.findall(r"(?:^    |^\$ |`|/bin/)tuner ([a-z]+)", text, re.MULTILINE)

    assert set(typed) <= {command.name for command in COMMANDS}


HOW_TO = (ROOT / "docs" / "how-to.md").read_text(encoding="utf-8")
WISHES = re.findall(r"^- To [^`:]+:\s+`(tuner [^`]+)`", HOW_TO, re.MULTILINE)


def test_the_how_to_has_a_command_for_twenty_wishes() -> None:
    assert len(WISHES) >= 20


@pytest.mark.parametrize("typed", [*WISHES, *re.findall(r"^    (tuner .+)$", HOW_TO, re.MULTILINE)])
def test_every_command_of_the_how_to_can_be_parsed(typed: str) -> None:
    _, name, *words = shlex.split(typed)
    if "--" in words:  # the command of a service, as main() hands it on
        at = words.index("--")
        words = [*words[:at], "--command", shlex.join(words[at + 1 :])]
    (command,) = (command for command in COMMANDS if command.name == name)

    with get_command(command.load()).make_context(f"tuner {name}", words) as context:
        assert context.params


EXAMPLES_OF_PROBES = [
    example
    for name in ("probes", "probes-of-servers")
    for example in re.findall(
        r"^```yaml\n(.*?)^```",
        (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
]


@pytest.mark.parametrize("example", EXAMPLES_OF_PROBES)
def test_every_example_of_a_probe_is_a_config(example: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(example, encoding="utf-8")
    (tmp_path / "sample.json").touch()

    settings = load_settings(tmp_path / "s.yaml", {})
    service = settings.service

    assert isinstance(service, ScriptSettings)
    assert f"    kind: {service.probe.kind}\n" in example
    assert settings_of_study(canonical_json(settings), "s.tuner.db") == settings


def test_every_kind_of_probe_has_a_section_with_an_example() -> None:
    kinds = {kind_of(model) for model in PROBES.models()}

    shown = {re.search(r"    kind: (\S+)\n", example)[1] for example in EXAMPLES_OF_PROBES}
    assert shown == kinds


def test_the_lines_of_requests_on_the_page_of_http_services_are_requests(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    (tmp_path / "r.jsonl").write_text("\n".join(re.findall(r"^    ({.*})$", page, re.MULTILINE)))

    requests = read_requests(tmp_path / "r.jsonl", parse_url("http://127.0.0.1:8000/"), {})

    assert [request.method for request in requests] == ["GET", "POST"]


EXAMPLES = [
    (page.name, number, text)
    for page in PAGES
    for number, text in enumerate(
        re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.M)
    )
]


def test_the_page_of_http_services_has_examples() -> None:
    assert len([name for name, _, _ in EXAMPLES if name == "http.md"]) == 2


@pytest.mark.parametrize(("name", "number", "text"), EXAMPLES, ids=lambda part: str(part)[:9])
def test_every_example_of_a_config_can_be_loaded(tmp_path: Path, name: str, number: int, text: str) -> None:
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "requests.jsonl").touch()
    (tmp_path / "sample.json").touch()

    assert isinstance(settings_of(tmp_path / "s.yaml", {}).service, ScriptSettings)
