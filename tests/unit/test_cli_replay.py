"""What may be typed wrong after `tuner replay`: one clear line each, before anything is drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuner.cli import run

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
        (["nonsense"], "no suite is called nonsense, and no file either"),
        (["identical+nonsense"], "no suite is called identical+nonsense"),
        (["none.tuner.db"], "there is no study file none.tuner.db"),
        (["none.json"], "cannot read the suite none.json: No such file or directory"),
        (["."], "cannot read the suite .: Is a directory"),
        (["s.json", "--strategy", "rcae"], "--strategy rcae: there is none, did you mean race?"),
        (["s.json", "--kind", "sure"], "--kind sure: should be strict or calibrated"),
        (["s.json", "--surfaces", "0"], "--surfaces: should be greater than or equal to 1"),
        (["s.json", "--repeats", "x"], "--repeats: should be a whole number"),
        (["s.json", "--processes", "0"], "--processes: should be greater than or equal to 1"),
        (["s.json", "--within", "2"], "--within 2: should be between 0 % and 50 %"),
        (["s.json", "--within", "nan"], "--within nan: should be between 0 % and 50 %"),
        (["s.json", "--confidence", "x"], "--confidence: 'x' is no share"),
        (["s.json", "--confidence", "10%"], "--confidence 10%: should be between 50 % and 100 %"),
        (
            ["s.json", "--windows", "5"],
            "--windows is for strategies that do not end by themselves; race does",
        ),
        ([], "missing argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_typed_wrong_is_told_in_one_line(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.json").write_text(json.dumps(SUITE))
    code = run(["replay", *arguments])

    told = capsys.readouterr()
    assert told.err.startswith("Error: ")
    assert said in told.err.splitlines()[0]
    assert (code, told.out) == (2, "")


def test_what_can_be_typed_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "--help"]) == 0

    told = capsys.readouterr().out
    for option in ("--strategy", "--kind", "--surfaces", "--repeats", "--seed", "--json", "--processes"):
        assert option in told


def test_a_suite_s_name_that_no_terminal_takes_is_shown_without_what_it_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.json").write_text(json.dumps({**SUITE, "name": "half \ud800, red \x1b[31m"}))

    assert run(["replay", "s.json", "--strategy", "all", "--windows", "2", "--processes", "1"]) == 0
    assert "on half \ufffd, red  [31m: 2 layouts" in capsys.readouterr().out
