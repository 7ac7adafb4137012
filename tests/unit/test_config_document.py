from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.config.document import DEEPEST, Document, parse_document
from tuner.core.errors import ConfigError

from ..wording import key_of, wording

pytestmark = pytest.mark.pythons


def problem_of(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_document(text, "a.yaml")
    return caught.value.problem


@pytest.mark.parametrize("written", ["0x4", "1:30", "010", "no", "1e3", "2026-11-20", "1_000", "4x6", "0o17"])
def test_a_scalar_stays_what_was_written(written: str) -> None:
    assert parse_document(f"key: {written}\n", "a.yaml").values == {"key": written}


def test_nothing_written_is_none_and_quotes_make_text_of_it() -> None:
    assert parse_document("a:\nb: ~\nc: ''\nd: 'null'\n", "a.yaml").values == {
        "a": None,
        "b": None,
        "c": "",
        "d": "null",
    }


def test_every_value_and_key_knows_its_line_and_column() -> None:
    document = parse_document("study:\n  layouts:\n    - 4x6\n    - 1x24\n", "a.yaml")

    assert document.where(("study", "layouts", 1)) == "a.yaml:4:7"
    assert document.where(("study", "layouts"), key=True) == "a.yaml:2:3"


def test_what_is_missing_is_placed_at_the_key_above_it() -> None:
    document = parse_document("a: 1\nservice:\n  kind: script\n", "a.yaml")

    assert document.where(("service", "name")) == "a.yaml:2:1"
    assert Document("b.yaml", {}).where(("service",)) == "b.yaml:1:1"


def test_a_key_set_twice_is_an_error_that_names_both_lines() -> None:
    assert problem_of("a:\n  b: 1\n  c: 2\n  b: 3\n") == "a.yaml:4:3: a.b: " + wording(
        "config.set-twice", line=2
    )


def test_anchors_aliases_and_merges_work_and_own_keys_win() -> None:
    document = parse_document("base: &b {x: 1, y: 2}\none:\n  <<: *b\n  y: 3\ntwo: *b\n", "a.yaml")

    assert document.values["one"] == {"x": "1", "y": "3"}
    assert document.values["two"] == {"x": "1", "y": "2"}
    assert document.where(("one", "y")) == "a.yaml:4:6"
    assert document.where(("one", "x")) == "a.yaml:1:14"


def test_of_several_merged_mappings_the_first_wins() -> None:
    document = parse_document("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc:\n  <<: [*a, *b]\n", "a.yaml")

    assert document.values["c"] == {"x": "1", "y": "2"}


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!env", "!!binary", "!!set"])
def test_tags_are_refused_and_run_nothing(tag: str) -> None:
    said = problem_of(f"a: {tag} [echo]\n" if tag != "!!set" else "a: !!set {x}\n")

    assert said.startswith("a.yaml:1:4: the tag ")


def test_aliases_that_grow_without_end_are_refused_before_they_grow() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]

    assert wording("config.aliases-grow") in problem_of("\n".join(lines))


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "a: &a {b: *a}\n", "a: &a\n  <<: *a\n"])
def test_an_alias_of_itself_is_refused(text: str) -> None:
    assert "grow without end" in problem_of(text)


def test_nesting_is_bounded() -> None:
    assert f"nested deeper than {DEEPEST}" in problem_of("a: " + "[" * 5000)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "null\n"])
def test_a_file_that_says_nothing_is_empty(text: str) -> None:
    assert problem_of(text) == "a.yaml is empty"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "a.yaml:1:1: " + wording("config.no-key-value")),
        ("just words\n", "a.yaml:1:1: " + wording("config.no-key-value")),
        ("a: 1\n---\nb: 2\n", wording("config.second-document")),
        ("a: [1, 2\n", "a.yaml:2:1: " + wording("config.no-yaml")),
        ("a:\n\tb: 1\n", "a.yaml:2:1: " + wording("config.no-yaml")),
        ("a: b: c\n", "a.yaml:1:5: " + wording("config.no-yaml")),
        ("a: \x00\n", "a.yaml:1:4: " + wording("config.no-yaml-character")),
        ("? [a]\n: b\n", "a.yaml:1:3: " + wording("config.key-no-plain-word")),
        ("a: *nowhere\n", "a.yaml:1:4: " + wording("config.no-yaml")),
        ('a: "\\q"\n', wording("config.no-yaml")),
    ],
    ids=key_of,
)
def test_what_is_no_settings_file_is_refused_in_one_line_with_its_place(text: str, said: str) -> None:
    problem = problem_of(text)

    assert said in problem
    assert "\n" not in problem


@given(st.text(alphabet="ab:-[]{}&*!<>|'\"#,?% \n\t\\0x", max_size=60))
def test_any_text_is_a_document_or_a_config_error(text: str) -> None:
    try:
        document = parse_document(text, "a.yaml")
    except ConfigError:
        return
    assert isinstance(document.values, dict)
