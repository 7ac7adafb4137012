"""Suite files: everything that could be wrong in one, in one line that says where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.config.suite import parse_suite, read_suite
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError
from tuner.core.search.suite import SuiteNoise

from ..raising import raises
from ..wording import key_of, start_of, wording

WHOLE: dict[str, Any] = {
    "layouts": ["4x6", "24x1", "12x2@pool"],
    "surfaces": [[1.5, 2, 3], [3, 2, 1]],
    "within": 0.02,
    "confidence": 0.95,
    "launch_s": 120,
    "window_s": 600,
    "noise": {"window_sd": 0.05},
}


def parsed(text: str) -> object:
    return parse_suite(text, "s.json", "s")


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    assert "\n" not in caught.value.problem
    return caught.value.problem


def with_(**changes: Any) -> str:
    return json.dumps({**WHOLE, **changes})


def test_a_suite_is_read_with_all_it_says() -> None:
    text = with_(name="A", cores=24, floor_windows=65.0, window_s=None, says="made by hand")
    suite = parse_suite(text, "s.json", "s")

    assert suite.name == "A"
    assert suite.layouts == (Layout(4, 6), Layout(24, 1), Layout(12, 2, "pool"))
    assert suite.surfaces == ((1.5, 2.0, 3.0), (3.0, 2.0, 1.0))
    assert (suite.within, suite.confidence, suite.launch_s, suite.window_s) == (0.02, 0.95, 120.0, None)
    assert (suite.cores, suite.floor_windows, suite.floor_hours) == (24, 65.0, None)


def test_noise_that_is_absent_null_or_0_is_no_noise() -> None:
    for noise in ({}, {"student_t_df": None, "drift_sd": None}, {"student_t_df": 0, "window_sd": 0.0}):
        assert parse_suite(with_(noise=noise), "s.json", "s").noise == SuiteNoise()


def test_a_suite_without_a_name_is_called_as_its_file() -> None:
    assert parse_suite(with_(), "s.json", "s").name == "s"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layouts": []}, wording("suite.too-few-layouts", value="[]")),
        ({"layouts": ["4x6"]}, wording("suite.too-few-layouts", value='["4x6"]')),
        ({"layouts": "4x6"}, wording("suite.too-few-layouts", value='"4x6"')),
        ({"layouts": ["4x6", 5, "1x1"]}, wording("suite.layout-no-text", place="layouts[1]", value=5)),
        (
            {"layouts": ["4x6", "0x4", "1x1"]},
            wording("suite.layout-runs-nothing", place="layouts[1]", layout="0x4"),
        ),
        ({"layouts": ["4x6", "4", "1x1"]}, wording("suite.no-layout", place="layouts[1]", text=4)),
        (
            {"layouts": ["4x6", "1x1", "04x6"]},
            wording("suite.layout-named-twice", place="layouts[2]", layout="4x6", first="layouts[0]"),
        ),
        ({"surfaces": []}, wording("suite.no-rows", value="[]")),
        ({"surfaces": {}}, wording("suite.no-rows", value="{}")),
        ({"surfaces": [[1, 2, 3], 4]}, wording("suite.row-no-numbers", place="surfaces[1]", value=4)),
        (
            {"surfaces": [[1, 2, 3], [1, 2]]},
            wording("suite.row-of-another-length", place="surfaces[1]", n=2, n_layouts=3),
        ),
        ({"surfaces": [[1, 2, 0]]}, wording("suite.too-low", place="surfaces[0][2]", least=0, value=0)),
        ({"surfaces": [[1, -2, 3]]}, wording("suite.too-low", place="surfaces[0][1]", least=0, value=-2)),
        ({"surfaces": [[1, "2", 3]]}, wording("suite.no-number", place="surfaces[0][1]", value='"2"')),
        ({"surfaces": [[1, True, 3]]}, wording("suite.no-number", place="surfaces[0][1]", value="true")),
        ({"surfaces": [[1, None, 3]]}, wording("suite.no-number", place="surfaces[0][1]", value="null")),
        (
            {"surfaces": [[1, 10**400, 3]]},
            wording("suite.no-number", place="surfaces[0][1]", value="a number"),
        ),
        ({"within": 0}, wording("suite.too-low", place="within", least=0, value=0)),
        ({"within": 1}, wording("suite.too-high", place="within", most=1, value=1)),
        ({"within": "2%"}, wording("suite.no-number", place="within", value='"2%"')),
        ({"confidence": 95}, wording("suite.too-high", place="confidence", most=1, value=95)),
        ({"confidence": 0.4}, wording("suite.below-least", place="confidence", least="0.5", value="0.4")),
        ({"launch_s": -1}, wording("suite.below-least", place="launch_s", least=0, value=-1)),
        ({"launch_s": None}, wording("suite.no-number", place="launch_s", value="null")),
        ({"window_s": 0}, wording("suite.too-low", place="window_s", least=0, value=0)),
        ({"cores": 2.5}, wording("suite.no-whole-number", place="cores", value="2.5")),
        ({"cores": 0}, wording("suite.no-whole-number", place="cores", value=0)),
        ({"cores": "24"}, wording("suite.no-whole-number", place="cores", value='"24"')),
        ({"name": 5}, wording("suite.no-text", value=5)),
        ({"floor_windows": -5}, wording("suite.too-low", place="floor_windows", least=0, value=-5)),
        ({"noise": []}, wording("suite.no-object", value="[]")),
        ({"noise": {"windowsd": 1}}, wording("suite.did-you-mean", place="noise.windowsd", key="window_sd")),
        ({"noise": {"zzz": 1}}, wording("suite.unknown-key", place="noise.zzz")),
        (
            {"noise": {"window_sd": -0.1}},
            wording("suite.below-least", place="noise.window_sd", least=0, value="-0.1"),
        ),
        ({"noise": {"launch_sd": 5}}, wording("suite.above-most", place="noise.launch_sd", most=1, value=5)),
        (
            {"noise": {"drift_ar1_per_600s": 1.5}},
            wording("suite.above-most", place="noise.drift_ar1_per_600s", most=1, value="1.5"),
        ),
        (
            {"noise": {"drift_ar1_per_600s": -0.5}},
            wording("suite.below-least", place="noise.drift_ar1_per_600s", least=0, value="-0.5"),
        ),
        (
            {"noise": {"student_t_df": 2}},
            wording("suite.too-low", place="noise.student_t_df", least=2, value=2),
        ),
        ({"noise": {"window_sd": "5%"}}, wording("suite.no-number", place="noise.window_sd", value='"5%"')),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else key_of(value),
)
def test_what_a_suite_cannot_say_is_reported_with_its_place(changes: dict[str, Any], said: str) -> None:
    assert said in start_of(refused(with_(**changes)).removeprefix("s.json: "))


def test_factors_of_layouts_are_one_row_or_a_row_per_surface() -> None:
    one = parse_suite(with_(noise_factors=[1, 2, 0.5], trends_per_h=[0, -0.1, 0]), "s.json", "s")
    each = parse_suite(with_(drift_factors=[[1, 2, 3], [3, 2, 1]]), "s.json", "s")

    assert (one.noise_factors, one.trends_per_h) == (((1.0, 2.0, 0.5),), ((0.0, -0.1, 0.0),))
    assert (one.drift_factors, each.drift_factors) == ((), ((1.0, 2.0, 3.0), (3.0, 2.0, 1.0)))


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        pytest.param({"noise_factors": [1, 2]}, "noise_factors[0]", id="too few numbers"),
        pytest.param({"noise_factors": [1, 2, -1]}, "noise_factors[0][2]", id="a factor below 0"),
        pytest.param({"drift_factors": [[1, 2, 3]] * 3}, "drift_factors", id="three rows for two surfaces"),
        pytest.param({"trends_per_h": []}, "trends_per_h", id="no number"),
        pytest.param({"noise": {"spell_loss": 0.2}}, "noise.spell_loss", id="a spell without a length"),
        pytest.param({"noise": {"outlier_loss": 1}}, "noise.outlier_loss", id="a window that loses all"),
    ],
)
def test_a_world_that_cannot_be_is_refused_with_its_place(changes: dict[str, Any], place: str) -> None:
    assert refused(with_(**changes)).startswith(f"s.json: {place}: ")


@pytest.mark.parametrize("key", WHOLE)
def test_what_is_missing_is_reported(key: str) -> None:
    assert refused(json.dumps({k: v for k, v in WHOLE.items() if k != key})) == f"s.json: {key} is missing"


def test_a_key_that_is_nearly_right_is_shown_beside_the_one_that_is_missing() -> None:
    text = json.dumps({("launchs" if key == "launch_s" else key): value for key, value in WHOLE.items()})

    assert refused(text) == wording("suite.launch-s-missing")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", wording("suite.no-json", place="s.json:1:1", why="expecting value")),
        (
            '{"within": 0.02,\n  "launch_s" 5}',
            wording("suite.no-json", place="s.json:2:14", why="expecting ':' delimiter"),
        ),
        ("{} {}", wording("suite.no-json", place="s.json:1:4", why="extra data")),
        ("[]", wording("suite.this-is-no-object")),
        ("5", wording("suite.this-is-no-object")),
        ('{"within": NaN}', wording("suite.not-a-number", text="NaN")),
        ('{"within": -Infinity}', wording("suite.not-a-number", text="-Infinity")),
        ('{"within": 0.02, "within": 0.05}', wording("suite.set-twice")),
        ("[" * 100_000, wording("suite.nested-too-deeply")),
        ('{"within": ' + "9" * 5000 + "}", wording("suite.not-a-suite")),
    ],
    ids=key_of,
)
def test_what_is_no_suite_at_all_is_reported(text: str, said: str) -> None:
    assert said in start_of(refused(text))


def test_a_number_beyond_all_numbers_is_refused() -> None:
    text = with_().replace("[1.5, 2, 3]", "[1e999, 2, 3]")

    assert refused(text) == wording("suite.no-number", place="s.json: surfaces[0][0]", value="Infinity")


def test_a_byte_that_is_no_utf_8_is_reported_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_bytes(b'{"name":\n "\xff"}')

    with pytest.raises(ConfigError, match=r"s\.json:2:3: byte 0xff is not UTF-8"):
        read_suite(tmp_path / "s.json")


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_bytes(b"\xef\xbb\xbf" + with_().encode())

    assert read_suite(tmp_path / "s.json").name == "s"


def test_a_folder_and_a_file_that_is_not_there_are_reported(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with raises(ConfigError, wording("suite.cannot-read-at-all")):
            read_suite(path)


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with raises(ConfigError, wording("suite.too-large")):
        read_suite(Path("/dev/zero"))
