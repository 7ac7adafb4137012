"""What may be typed wrong after `tuner replay`: one clear line each, before anything is drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuner.cli import run

from ..wording import key_of, wording

SUITE = {
    "layouts": ["1x4", "4x1"],
    "surfaces": [[100, 80]],
    "within": 0.02,
    "confidence": 0.95,
    "launch_s": 60,
    "window_s": 300,
    "noise": {"window_sd": 0.03},
}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], wording("suite.no-such-suite", name="nonsense")),
        (["identical+nonsense"], wording("suite.no-such-suite", name="identical+nonsense")),
        (["none.tuner.db"], wording("study-file.no-study-file", file="none.tuner.db")),
        (["none.json"], wording("suite.cannot-read", file="none.json", why="No such file or directory")),
        (["."], wording("suite.cannot-read", file=".", why="Is a directory")),
        (["s.json", "--strategy", "rcae"], wording("suite.no-such-strategy")),
        (["s.json", "--kind", "sure"], wording("suite.kind")),
        (["s.json", "--surfaces", "0"], "--surfaces: " + wording("config.at-least", least=1)),
        (["s.json", "--repeats", "x"], "--repeats: " + wording("config.whole-number")),
        (["s.json", "--processes", "0"], "--processes: " + wording("config.at-least", least=1)),
        (
            ["s.json", "--within", "2"],
            wording("suite.between", option="within", value=2, low="0 %", high="50 %"),
        ),
        (
            ["s.json", "--within", "nan"],
            wording("suite.between", option="within", value="nan", low="0 %", high="50 %"),
        ),
        (["s.json", "--confidence", "x"], wording("suite.no-share")),
        (
            ["s.json", "--confidence", "10%"],
            wording("suite.between", option="confidence", value="10%", low="50 %", high="100 %"),
        ),
        (
            ["s.json", "--windows", "5"],
            wording("suite.windows-of-strategies"),
        ),
        ([], wording("command-line.missing-argument", name="SUITE")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else key_of(value),
)
def test_what_is_typed_wrong_is_reported_in_one_line(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.json").write_text(json.dumps(SUITE))
    code = run(["replay", *arguments])

    result = capsys.readouterr()
    assert result.err.startswith("Error: ")
    assert said in result.err.splitlines()[0]
    assert (code, result.out) == (2, "")


def test_what_can_be_typed_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "--help"]) == 0

    result = capsys.readouterr().out
    for option in ("--strategy", "--kind", "--surfaces", "--repeats", "--seed", "--json", "--processes"):
        assert option in result


def test_a_suite_s_name_that_no_terminal_takes_is_shown_without_what_it_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.json").write_text(json.dumps({**SUITE, "name": "half \ud800, red \x1b[31m"}))

    assert run(["replay", "s.json", "--strategy", "all", "--windows", "2", "--processes", "1"]) == 0
    assert wording("suite.on-two-layouts") in capsys.readouterr().out
