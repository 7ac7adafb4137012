from __future__ import annotations

from tuner.core.changes import changed_settings


def test_the_same_settings_differ_in_nothing_whatever_their_order() -> None:
    assert changed_settings('{"a": 1, "b": {"c": [1, 2]}}', '{"b": {"c": [1, 2]}, "a": 1}') == []


def test_each_setting_that_differs_is_named_with_both_values() -> None:
    kept = '{"study": {"window": 600.0, "seed": 1}, "service": {"name": "x"}}'
    given = '{"study": {"window": 60.0, "seed": 1}, "service": {"name": "y"}}'

    assert changed_settings(kept, given) == [
        "study.window: 600.0 in the study, 60.0 given",
        'service.name: "x" in the study, "y" given',
    ]


def test_a_setting_that_is_new_gone_or_unset_is_named_too() -> None:
    kept, given = '{"a": 1, "b": null, "d": {"e": 1}}', '{"b": 2, "c": [3], "d": null}'

    assert changed_settings(kept, given) == [
        "a: 1 in the study, nothing given",
        "b: nothing in the study, 2 given",
        'd: {"e": 1} in the study, nothing given',
        "c: nothing in the study, [3] given",
    ]


def test_a_list_that_differs_is_shown_whole() -> None:
    assert changed_settings('{"a": [1, 2]}', '{"a": [2, 1]}') == ["a: [1, 2] in the study, [2, 1] given"]


def test_a_setting_that_an_older_study_did_not_have_and_nobody_sets_is_no_change() -> None:
    assert changed_settings('{"a": 1}', '{"a": 1, "b": null}') == []
    assert changed_settings('{"a": 1, "b": null}', '{"a": 1}') == []
