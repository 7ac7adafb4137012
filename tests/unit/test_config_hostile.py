"""Configs that nobody wrote in good faith: settings, or an error with its place; never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.bootstrap.configs import settings_of
from tuner.config.document import LARGEST_BYTES
from tuner.core.errors import ConfigError

from ..odd_values import ODD
from ..wording import end_of, start_of, wording

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted([ROOT / "configs" / "script.yaml", *(ROOT / "configs" / "lab").glob("*.yaml")])


def told(path: Path) -> str:
    """What is said of the config, empty where it is one."""
    try:
        settings_of(path, {})
    except ConfigError as error:
        return error.problem or "nothing"
    return ""


@st.composite
def spoilt(draw: st.DrawFn) -> str:
    """A config of ours of which lines are gone, doubled, elsewhere, deeper, or have another value."""
    lines = draw(st.sampled_from(CONFIGS)).read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    for _ in range(draw(st.integers(1, 4))):
        at, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match draw(st.sampled_from(["gone", "doubled", "exchanged", "deeper", "value", "value", "value"])):
            case "gone" if len(lines) > 1:
                del lines[at]
            case "doubled":
                lines.insert(other, lines[at])
            case "exchanged":
                lines[at], lines[other] = lines[other], lines[at]
            case "deeper":
                lines[at] = "  " * draw(st.integers(0, 4)) + lines[at].lstrip()
            case _:
                lines[at] = f"{lines[at].partition(':')[0]}: {draw(st.sampled_from(ODD))}"
    return "\n".join(lines)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=spoilt())
def test_a_config_that_was_spoilt_is_settings_or_told_with_its_place(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")

    for line in told(path).splitlines():
        assert line.startswith(f"{path}:") or str(path) in line, line


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("service: {kind: script}\n".encode("utf-16"), "1:1: " + wording("config.no-utf8")),
        (b"service:\n  name: a\0b\n", "2:10: " + wording("config.no-yaml-character")),
        (b"\xef\xbb\xbfstudy: {cores: 0}\n", "1:16: study.cores: " + wording("config.at-least", least=1)),
        (b"study:\n\tcores: 2\n", "2:1: " + wording("config.no-yaml")),
        (b"study: {cores: 1}\nstudy: {cores: 2}\n", "2:1: study: " + wording("config.set-twice", line=1)),
        (b"a: " + b"[" * 100_000, wording("config.nested-too-deeply")),
        (b"#" * (LARGEST_BYTES + 1), wording("config.config-too-large")),
        (b"study: {seed: " + b"9" * 5000 + b"}\n", "1:15: study.seed: "),
        (
            b"study: !!python/object/apply:os.system [touch pwned]\n",
            "1:8: " + wording("config.tag", tag="!!python/object/apply:os.system"),
        ),
        (
            b"".join(b"a%d: &a%d [%s]\n" % (n, n, b"*a%d," % (n - 1) * 9 if n else b"x") for n in range(9)),
            "grow",
        ),
        (b"\xff\xfe\x00\x00", wording("config.no-utf8")),
        (b"\r\r\r", wording("config.empty-file")),
    ],
    ids=[
        "UTF-16",
        "NUL",
        "BOM",
        "tab",
        "twice",
        "deep",
        "large",
        "huge",
        "tag",
        "laughs",
        "bytes",
        "CR",
    ],
)
def test_what_is_hostile_is_reported_where_it_stands(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(content)

    assert said in told(path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"\\e[31mRED": 1', "1:1: \\x1b[31mRED: " + wording("config.unknown-key")),
        ('"a\\nb": 1', "1:1: a\\nb: " + wording("config.unknown-key")),
        (
            'service: {kind: "\\e[31m"}',
            "1:17: service.kind: " + wording("config.no-kind-of-service", kind="\\x1b[31m"),
        ),
        (
            'service: {kind: script, name: a, command: a, probe: {kind: "a\\nb"}}',
            "1:60: service.probe.kind: " + wording("config.no-kind-of-probe", kind="a\\nb"),
        ),
        (
            'service: {kind: script, name: a, command: a, directory: "a\\u202eb"}',
            "1:57: service.directory: " + wording("config.no-such-folder"),
        ),
        ('{"a\\nb": 1, "a\\nb": 2}', "1:13: a\\nb: " + wording("config.set-twice", line=1)),
        ("a: !%1b[31m 3", "1:4: " + wording("config.tag", tag="!\\x1b[31m")),
    ],
    ids=["escape", "line end", "service", "probe", "direction", "twice", "tag"],
)
def test_control_characters_are_reported_by_their_escapes_on_one_line(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f"{text}\n", encoding="utf-8")

    problem = told(path)

    assert said in start_of(problem.removeprefix(f"{path}:"))
    assert problem.isprintable()


@pytest.mark.parametrize("escape", ["\\0", "\\ud800", "\\udcff"])
def test_an_escape_of_what_no_program_takes_is_reported_where_it_stands(tmp_path: Path, escape: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f'service:\n  kind: script\n  name: a\n  command: "worker {escape}"\n', encoding="utf-8")

    assert wording("config.escape-of-no-program", path=path) in start_of(told(path))


def test_an_escape_beyond_all_characters_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text('service: {name: "\\UFFFFFFFF"}\n', encoding="utf-8")

    assert wording("config.escape-of-no-character", path=path) in start_of(told(path))


@pytest.mark.parametrize(
    "service",
    ["{kind: script, name: a, command: a, ", "{kind: gunicorn, command: gunicorn a:b, ", "{"],
    ids=["script", "known service", "built-in worker"],
)
@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("gone", wording("config.no-such-file")),
        ("/", wording("config.no-file", path="/")),
        ("a" * 300, wording("config.file-name-too-long")),
    ],
    ids=["gone", "folder", "long"],
)
def test_a_file_of_variables_that_is_none_is_reported_with_its_place(
    tmp_path: Path, service: str, file: str, said: str
) -> None:
    path = tmp_path / "s.yaml"
    text = f"service: {service}environment_file: "
    path.write_text(f"{text}{file}}}\n", encoding="utf-8")

    problem = told(path)

    assert problem.startswith(f"{path}:1:{len(text) + 1}: service.environment_file: ")
    assert said in problem


@pytest.mark.parametrize(
    ("section", "place"),
    [
        ("directory: %s", "directory"),
        ("probe: {kind: log, pattern: x, files: %s}", "probe.files"),
        ("probe: {kind: celery, python: ./%s}", "probe.python"),
        ("probe: {kind: sql, query: x, url: 'sqlite:///%s'}", "probe.url"),
    ],
    ids=["folder", "files", "python", "url"],
)
def test_a_path_whose_name_is_too_long_is_reported_with_its_place(
    tmp_path: Path, section: str, place: str
) -> None:
    path = tmp_path / "s.yaml"
    service = f"{{kind: script, name: a, command: a, {section % ('a' * 300)}}}"
    path.write_text(f"service: {service}\n", encoding="utf-8")

    problem = told(path)

    assert f"service.{place}: " in problem
    assert wording("config.file-name-too-long") in end_of(problem)


@pytest.mark.parametrize(
    "service",
    [
        "{kind: script, name: a, command: worker, directory: ~nobody-of-this-name/x}",
        "{kind: script, name: a, command: worker, environment_file: ~nobody-of-this-name/x}",
        "{kind: gunicorn, command: gunicorn a:b, environment_file: ~nobody-of-this-name/x}",
        "{kind: script, name: a, command: worker, directory: ~nobody-of-this-name/x,"
        " axes: {python: {old: {interpreter: python3.11}}}}",
    ],
    ids=["directory", "environment file", "known service", "axes"],
)
def test_the_home_of_a_user_that_is_none_is_reported(tmp_path: Path, service: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f"service: {service}\n", encoding="utf-8")

    said = told(path)

    assert said.startswith(f"{path}:1:")
    assert wording("config.no-home") in said
