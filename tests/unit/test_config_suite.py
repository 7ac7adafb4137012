"""Suite files: everything that could be wrong in one, in one line that says where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.config.suite import parse_suite, read_suite
from tuner.core.errors import ConfigError
from tuner.core.layout import Layout
from tuner.core.suite import SuiteNoise

from ..wording import wording

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
        ({"layouts": []}, "layouts: should be a list of two or more, got []"),
        ({"layouts": ["4x6"]}, "layouts: should be a list of two or more"),
        ({"layouts": "4x6"}, "layouts: should be a list"),
        ({"layouts": ["4x6", 5, "1x1"]}, 'layouts[1]: should be a text as "4x6", got 5'),
        ({"layouts": ["4x6", "0x4", "1x1"]}, "layouts[1]: layout 0x4 has nothing to run"),
        ({"layouts": ["4x6", "4", "1x1"]}, "layouts[1]: '4' is not a layout"),
        ({"layouts": ["4x6", "1x1", "04x6"]}, "layouts[2]: 4x6 is named twice, first in layouts[0]"),
        ({"surfaces": []}, "surfaces: should be a list of one row or more"),
        ({"surfaces": {}}, "surfaces: should be a list of one row or more"),
        ({"surfaces": [[1, 2, 3], 4]}, "surfaces[1]: should be a list of numbers, got 4"),
        ({"surfaces": [[1, 2, 3], [1, 2]]}, "surfaces[1]: has 2 values for 3 layouts"),
        ({"surfaces": [[1, 2, 0]]}, "surfaces[0][2]: should be above 0, got 0"),
        ({"surfaces": [[1, -2, 3]]}, "surfaces[0][1]: should be above 0, got -2"),
        ({"surfaces": [[1, "2", 3]]}, 'surfaces[0][1]: should be a number, got "2"'),
        ({"surfaces": [[1, True, 3]]}, "surfaces[0][1]: should be a number, got true"),
        ({"surfaces": [[1, None, 3]]}, "surfaces[0][1]: should be a number, got null"),
        ({"surfaces": [[1, 10**400, 3]]}, "surfaces[0][1]: should be a number, got a number"),
        ({"within": 0}, "within: should be above 0, got 0"),
        ({"within": 1}, "within: should be below 1, got 1"),
        ({"within": "2%"}, 'within: should be a number, got "2%"'),
        ({"confidence": 95}, "confidence: should be below 1, got 95"),
        ({"confidence": 0.4}, "confidence: should be at least 0.5, got 0.4"),
        ({"launch_s": -1}, "launch_s: should be at least 0, got -1"),
        ({"launch_s": None}, "launch_s: should be a number, got null"),
        ({"window_s": 0}, "window_s: should be above 0, got 0"),
        ({"cores": 2.5}, "cores: should be a whole number of 1 or more, got 2.5"),
        ({"cores": 0}, "cores: should be a whole number of 1 or more, got 0"),
        ({"cores": "24"}, 'cores: should be a whole number of 1 or more, got "24"'),
        ({"name": 5}, "name: should be a text, got 5"),
        ({"floor_windows": -5}, "floor_windows: should be above 0, got -5"),
        ({"noise": []}, "noise: should be an object, got []"),
        ({"noise": {"windowsd": 1}}, "noise.windowsd: unknown key, did you mean window_sd?"),
        ({"noise": {"zzz": 1}}, "noise.zzz: unknown key, known are window_sd, launch_sd"),
        ({"noise": {"window_sd": -0.1}}, "noise.window_sd: should be at least 0, got -0.1"),
        ({"noise": {"launch_sd": 5}}, "noise.launch_sd: should be at most 1, got 5"),
        ({"noise": {"drift_ar1_per_600s": 1.5}}, "noise.drift_ar1_per_600s: should be at most 1, got 1.5"),
        ({"noise": {"drift_ar1_per_600s": -0.5}}, "noise.drift_ar1_per_600s: should be at least 0, got -0.5"),
        ({"noise": {"student_t_df": 2}}, "noise.student_t_df: should be above 2, got 2"),
        ({"noise": {"window_sd": "5%"}}, 'noise.window_sd: should be a number, got "5%"'),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else "",
)
def test_what_a_suite_cannot_say_is_told_with_its_place(changes: dict[str, Any], said: str) -> None:
    assert refused(with_(**changes)).startswith(f"s.json: {said}")


@pytest.mark.parametrize("key", WHOLE)
def test_what_is_missing_is_told(key: str) -> None:
    assert refused(json.dumps({k: v for k, v in WHOLE.items() if k != key})) == f"s.json: {key} is missing"


def test_a_key_that_is_nearly_right_is_shown_beside_the_one_that_is_missing() -> None:
    text = json.dumps({("launchs" if key == "launch_s" else key): value for key, value in WHOLE.items()})

    assert refused(text) == wording("launch.s-json-launch-s")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "s.json:1:1: not JSON: expecting value"),
        ('{"within": 0.02,\n  "launch_s" 5}', "s.json:2:14: not JSON: expecting ':' delimiter"),
        ("{} {}", "s.json:1:4: not JSON: extra data"),
        ("[]", "s.json: a suite is an object with layouts,"),
        ("5", "s.json: a suite is an object with layouts,"),
        ('{"within": NaN}', "s.json: NaN is no number that a suite could have"),
        ('{"within": -Infinity}', "s.json: -Infinity is no number that a suite could have"),
        ('{"within": 0.02, "within": 0.05}', "s.json: within is set twice"),
        ("[" * 100_000, "s.json: not a suite: nested too deeply"),
        ('{"within": ' + "9" * 5000 + "}", "s.json: not a suite: "),
    ],
)
def test_what_is_no_suite_at_all_is_told(text: str, said: str) -> None:
    assert refused(text).startswith(said)


def test_a_number_beyond_all_numbers_is_refused() -> None:
    text = with_().replace("[1.5, 2, 3]", "[1e999, 2, 3]")

    assert refused(text) == wording("simulate.s-json-surfaces-should")


def test_a_byte_that_is_no_utf_8_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_bytes(b'{"name":\n "\xff"}')

    with pytest.raises(ConfigError, match=r"s\.json:2:3: byte 0xff is not UTF-8"):
        read_suite(tmp_path / "s.json")


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_bytes(b"\xef\xbb\xbf" + with_().encode())

    assert read_suite(tmp_path / "s.json").name == "s"


def test_a_folder_and_a_file_that_is_not_there_are_told(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(ConfigError, match=wording("simulate.cannot-read-suite").pattern):
            read_suite(path)


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(ConfigError, match=wording("simulate.dev-zero-suite-larger").pattern):
        read_suite(Path("/dev/zero"))
