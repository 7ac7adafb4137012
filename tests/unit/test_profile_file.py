from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.config.document import parse_document
from tuner.config.profile import parse_profile, profile_texts, read_profile, render_profile
from tuner.config.profile_sections import DEMANDS, ProfileFile
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError
from tuner.core.model.demand import Demands, Terms
from tuner.core.model.machine import Machine
from tuner.core.model.profile import FAILURES, Profile, ProfileMemory, ProfileNoise
from tuner.core.stats.interval import Estimate

from ..raising import raises
from ..wording import key_of, start_of, wording

SHIPPED = sorted((Path(__file__).resolve().parents[2] / "configs" / "profiles").glob("*.yaml"))
LEAST = "name: x\ndemands: {gil: 1s}\nmachine: {cores: 2}\n"


def read(text: str) -> Profile:
    return parse_profile(parse_document(text, "p.yaml").values, "p.yaml")


def problem_of(tmp_path: Path, text: str) -> str:
    file = tmp_path / "p.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_profile(file)
    return caught.value.problem.replace(f"{tmp_path}/", "")


seconds = st.floats(0, 1e5)
shares = st.floats(0, 50)
scatters = st.floats(0, 10)
up_to_one = st.floats(0, 1)
sizes = st.floats(0, 1e13)


layouts = st.builds(
    Layout, st.integers(1, 1024), st.integers(1, 1024), st.just("") | st.just("gevent") | st.just("1e3")
)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    low, mean, high = sorted(draw(st.tuples(seconds, seconds, seconds)))
    return Estimate(*(draw(st.none() | st.just(value)) for value in (mean, low, high)))


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    cores = draw(st.floats(0.01, 4096))
    return Profile(
        name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)),
        source=draw(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=200)),
        demands=Demands(
            draw(st.floats(1e-6, 100)),
            *(draw(seconds) for _ in range(6)),
            n_gil_visits=draw(st.integers(1, 99)),
            cv_ratio=draw(up_to_one),
        ),
        machine=Machine(
            cores,
            draw(st.none() | st.just(cores / 2) | st.just(cores)),
            draw(shares),
            draw(shares),
            draw(st.booleans()),
            draw(st.floats(1e-6, 1e5)),
            draw(seconds),
            draw(seconds),
        ),
        terms=Terms(draw(shares), draw(shares), draw(shares), draw(seconds), draw(shares)),
        noise=ProfileNoise(*(draw(scatters) for _ in range(3)), draw(up_to_one), draw(st.none() | shares)),
        memory=ProfileMemory(*(draw(st.none() | sizes) for _ in range(3))),
        simulated=draw(st.just("") | st.just("gil-bound")),
        measured=tuple(draw(st.lists(layouts, max_size=40, unique=True))),
        busy_cores=draw(st.none() | st.floats(0, 4096)),
        start_s=draw(seconds),
        settle_s=draw(seconds),
        stop_s=draw(seconds),
        failures=draw(st.dictionaries(st.sampled_from(FAILURES), up_to_one)),
        intervals=draw(
            st.dictionaries(
                st.sampled_from(list(DEMANDS.values())),
                estimates(),
            )
        ),
    )


@given(profiles())
def test_what_is_written_is_read_again_to_the_last_digit(profile: Profile) -> None:
    assert read(render_profile(profile)) == profile
    assert parse_profile(profile_texts(profile), "study.db") == profile


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_profile_is_named_as_its_file_and_comes_through_unchanged(path: Path) -> None:
    profile = read_profile(path)

    assert profile.name == path.stem
    assert profile.source
    assert read(render_profile(profile)) == profile


def test_there_are_profiles_to_read() -> None:
    assert [path.stem for path in SHIPPED] == ["gil-bound", "socorro-2014", "waiting-bound"]


@pytest.mark.parametrize("text", [SHIPPED[1].read_text(encoding="utf-8"), render_profile(read(LEAST))])
def test_every_key_stands_in_the_commented_example_and_in_what_is_written(text: str) -> None:
    for section, field in ProfileFile.model_fields.items():
        assert f"\n{section}:" in text or f"\n# {section}: " in text
        for key in getattr(field.annotation, "model_fields", {}):
            assert f"\n  {key}: " in text or f"\n  # {key}: " in text, f"{section}.{key}"


def test_every_line_that_is_written_says_what_it_means() -> None:
    profile = replace(read(LEAST), failures=dict.fromkeys(FAILURES, 0.01))
    keys = [line for line in render_profile(profile).splitlines() if line.startswith("  ")]

    assert [line for line in keys if "  # " not in line[3:] and line != "  {}"] == []


@pytest.mark.parametrize(
    "aging", ["loss: 6%", "growth: 60MB, settles: 10m", "loss: 40%, layouts: [4x6, 1x24]"]
)
def test_launches_that_change_as_they_last_are_read_and_written(aging: str) -> None:
    profile = read(f"{LEAST}\naging: {{{aging}}}\n")

    assert profile.aging is not None
    assert read(render_profile(profile)) == profile


def test_what_is_left_out_is_as_the_model_has_it() -> None:
    profile = read(LEAST)

    assert profile == Profile("x", Demands(1.0), Machine(2.0))


def test_a_section_whose_keys_are_all_comments_says_nothing() -> None:
    empty = "".join(
        f"{name}:\n  # a comment\n"
        for name in ("terms", "noise", "memory", "launch", "failures", "intervals")
    )

    assert read(LEAST + empty) == read(LEAST)


def test_what_is_not_known_is_written_as_a_comment() -> None:
    text = render_profile(replace(read(LEAST), memory=ProfileMemory(60e6)))

    assert "\n# simulated: " in text
    assert "\n# measured: " in text
    assert "\n  # busy_cores: " in text
    assert "\n  process: 60MB " in text
    assert "\n  # thread: " in text
    assert "\n  # child: " in text


def test_many_layouts_that_were_measured_stand_in_short_lines() -> None:
    measured = tuple(Layout(processes, threads) for processes in range(1, 14) for threads in range(1, 14))
    text = render_profile(replace(read(LEAST), measured=measured))

    assert max(map(len, text.splitlines())) < 140
    assert read(text).measured == measured


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\nmachine: {cores: 2}\n", "p.yaml:1:1: demands: " + wording("config.missing")),
        (LEAST + "demand: {}\n", "p.yaml:4:1: demand: " + wording("config.unknown-key-meant", key="demands")),
        (
            LEAST.replace("gil: 1s", "gill: 1s"),
            "p.yaml:2:11: demands.gill: " + wording("config.unknown-key-meant", key="gil"),
        ),
        (
            LEAST.replace("1s", "1"),
            "p.yaml:2:16: demands.gil: " + wording("config.no-unit-of-time", text=1),
        ),
        (
            LEAST.replace("1s", "0s"),
            "p.yaml:2:10: demands: " + wording("config.demands-of-nothing"),
        ),
        (
            LEAST.replace("cores: 2", "cores: 0"),
            "p.yaml:3:18: machine.cores: " + wording("config.above-got", least=0, value=0),
        ),
        (
            LEAST.replace("cores: 2", "cores: inf"),
            "p.yaml:3:18: machine.cores: " + wording("config.finite-got", value="inf"),
        ),
        (
            LEAST.replace("cores: 2", "cores: 2, physical_cores: 3"),
            "p.yaml:3:10: machine: " + wording("config.more-physical-cores", physical=3, cores=2),
        ),
        (
            LEAST + "noise: {window: 5 percent}\n",
            "p.yaml:4:17: noise.window: " + wording("config.share-got", value="5 percent"),
        ),
        (
            LEAST + "noise: {drift_ar1: 2}\n",
            "p.yaml:4:20: noise.drift_ar1: " + wording("config.at-most-got", most=1, value=2),
        ),
        (
            LEAST + "noise: {second: 6000%, model: 90000%}\n",
            "p.yaml:4:31: noise.model: " + wording("config.at-most-got", most=10, value="90000%"),
        ),
        (
            LEAST + "memory: {process: 60}\n",
            "p.yaml:4:19: memory.process: " + wording("config.no-unit-of-size", text=60),
        ),
        (
            LEAST + "failures: {dyes: 1%}\n",
            "p.yaml:4:12: failures.dyes: "
            + wording("config.none-of", text="dyes", known=", ".join(FAILURES), meant="dies"),
        ),
        (
            LEAST + "failures: {dies: 101%}\n",
            "p.yaml:4:18: failures.dies: " + wording("config.at-most-got", most=1, value="101%"),
        ),
        (
            LEAST + "intervals: {gill: {low: 1s}}\n",
            "p.yaml:4:13: intervals.gill: "
            + wording(
                "config.none-of", text="gill", known="gil, python, child, asleep, blocked, spawn", meant="gil"
            ),
        ),
        (
            LEAST + "intervals: {gil: {low: 200ms, high: 100ms}}\n",
            "p.yaml:4:18: intervals.gil: "
            + wording("config.low-above", low="0.2s", other="high", value="0.1s"),
        ),
        (
            LEAST + "intervals: {gil: {low: 1s, mean: 500ms, high: 2s}}\n",
            "p.yaml:4:18: intervals.gil: "
            + wording("config.low-above", low="1s", other="mean", value="0.5s"),
        ),
        (
            LEAST + "simulated: a b\n",
            "p.yaml:4:12: simulated: " + wording("config.name-of-files"),
        ),
    ],
    ids=key_of,
)
def test_what_is_wrong_is_reported_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    assert problem_of(tmp_path, text) == said


def test_memory_beyond_every_number_is_reported_with_its_place(tmp_path: Path) -> None:
    said = problem_of(tmp_path, f"{LEAST}memory: {{process: {'9' * 400}B}}\n")

    assert "p.yaml:4:19: memory.process: " + wording("config.finite") in start_of(said)


@pytest.mark.parametrize("cores", ["1e28", "1e300", "123456789012345678901234567890"])
def test_a_number_of_many_digits_is_written_and_read_again(cores: str) -> None:
    profile = read(f"{LEAST}terms: {{process_cores: {cores}}}\n")

    assert read(render_profile(profile)) == profile


def test_all_that_is_wrong_is_reported_at_once_in_the_files_order(tmp_path: Path) -> None:
    result = problem_of(tmp_path, "name: a b\ndemands: {gil: x}\nmachine: {cores: -1}\n").splitlines()

    assert [line.split(": ")[0] for line in result] == ["p.yaml:1:7", "p.yaml:2:16", "p.yaml:3:18"]


def test_a_file_that_is_not_there_is_called_a_profile(tmp_path: Path) -> None:
    with raises(ConfigError, wording("simulate.cannot-read-profile", file=tmp_path / "no.yaml")):
        read_profile(tmp_path / "no.yaml")


@pytest.mark.parametrize("text", ["study: {window: 1m}\n", "service: {kind: script}\nhooks: {}\n"])
def test_a_config_is_reported_from_a_profile_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError) as caught:
        read_profile(file)
    assert caught.value.problem == wording("simulate.config-is-no-profile", file=file)
    assert caught.value.hint == wording("simulate.make-a-profile", file=file)


def test_a_profile_with_a_key_of_a_config_is_a_profile_all_the_same(tmp_path: Path) -> None:
    assert problem_of(tmp_path, LEAST + "study: {window: 1m}\n") == "p.yaml:4:1: study: " + wording(
        "config.unknown-key"
    )


def test_a_box_of_many_cores_is_of_the_kind_of_one_of_a_few() -> None:
    profile = read("name: x\ndemands: {gil: 10ms}\nmachine: {cores: 0.3, physical_cores: 0.3}\n")

    assert profile.machine_of(7).physical_cores == 7.0
