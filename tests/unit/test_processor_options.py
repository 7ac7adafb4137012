"""Options: one name in three places, and errors that say where they were written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner_workers.crash_processor.errors import InputError
from tuner_workers.crash_processor.options import OPTIONS, Options
from tuner_workers.crash_processor.profiles import PROFILES
from tuner_workers.crash_processor.settings import Given, resolve
from tuner_workers.crash_processor.stackwalk import StackwalkCommand

from ..raising import raises
from ..wording import end_of, key_of, wording

SOCORRO_NAMES = """
    producer_consumer_class number_of_threads maximum_queue_size idle_delay quit_on_empty_queue
    new_crash_source_class crashstorage_class fs_root stackwalk_command_line minidump_stackwalk_pathname
    kill_timeout processor_symbols_pathname_list symbol_cache_path dump_field
    temporary_file_system_storage_path crashing_thread_frame_threshold
    crashing_thread_tail_frame_threshold backoff_delays
"""
OUR_NAMES = """
    graceful_timeout max_attempts python_cost_ms fetch_delay_ms save_delay_ms seed endless keep_results
    stackwalk_passes redis_url
"""


def _given(**texts: str) -> dict[str, Given]:
    return {name: Given(text, f"--{name.replace('_', '-')}") for name, text in texts.items()}


@pytest.mark.parametrize("name", (SOCORRO_NAMES + OUR_NAMES).split())
def test_every_name_that_a_socorro_user_knows_is_there(name: str) -> None:
    assert name in OPTIONS


def test_defaults_are_socorros() -> None:
    options = Options()

    assert (options.number_of_threads, options.maximum_queue_size) == (4, 8)
    assert options.crashing_thread_frame_threshold == 100
    assert options.crashing_thread_tail_frame_threshold == 10


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_every_default_survives_being_written_down_and_read(name: str) -> None:
    option = OPTIONS[name]
    default = option.default
    text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
    if default is None:
        text = "all" if name == "keep_results" else ""

    if not (default is None and name == "processor_symbols_pathname_list"):  # none given is not an empty list
        assert option.parse(text) == default


def test_the_command_line_wins_over_the_environment_over_the_file_over_the_profile(tmp_path: Path) -> None:
    config = tmp_path / "crash.yaml"
    config.write_text("profile: socorro-2014\npython_cost_ms: 2\nfetch_delay_ms: 2\nsave_delay_ms: 2\n")
    environment = {"CRASH_PROCESSOR_FETCH_DELAY_MS": "3", "CRASH_PROCESSOR_SAVE_DELAY_MS": "3"}

    options = resolve(_given(save_delay_ms="4"), environment, config)

    assert (options.save_delay_ms, options.fetch_delay_ms, options.python_cost_ms) == (4, 3, 2)
    assert options.stackwalk_passes == int(PROFILES["socorro-2014"]["stackwalk_passes"])


def test_a_file_may_be_json_and_may_have_lists(tmp_path: Path) -> None:
    config = tmp_path / "crash.json"
    config.write_text(
        '{"backoff_delays": [0.1, 2], "processor-symbols-pathname-list": ["/a", "/b"], "seed": null}'
    )

    with raises(InputError, wording("crash-processor.seed-no-number")) as caught:
        resolve({}, {}, config)
    assert "crash.json:1:" in str(caught.value)

    config.write_text('{"backoff_delays": [0.1, 2], "processor-symbols-pathname-list": ["/a", "/b"]}')
    options = resolve({}, {}, config)

    assert options.backoff_delays == (0.1, 2.0)
    assert options.processor_symbols_pathname_list == ("/a", "/b")


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        (
            "number_of_thread: 3\n",
            "crash.yaml:1:1: " + wording("crash-processor.option-unknown-in-file"),
            wording("command-line.did-you-mean", meant="number_of_threads"),
        ),
        ("seed: 1\nseed: 2\n", "crash.yaml:2:1: " + wording("crash-processor.given-twice"), None),
        ("a: [1\n", "crash.yaml " + wording("crash-processor.no-yaml"), None),
        (
            "- 1\n",
            "crash.yaml " + wording("crash-processor.no-options"),
            wording("crash-processor.options-as"),
        ),
        ("seed: {a: 1}\n", "crash.yaml:1:1: " + wording("crash-processor.value-or-list"), None),
        (
            "number_of_threads: 0x4\n",
            "number_of_threads: " + wording("crash-processor.no-count-in-file"),
            None,
        ),
    ],
)
def test_an_error_in_a_file_says_the_line(tmp_path: Path, text: str, problem: str, hint: str | None) -> None:
    (tmp_path / "crash.yaml").write_text(text)

    with raises(InputError, problem) as caught:
        resolve({}, {}, tmp_path / "crash.yaml")

    assert caught.value.hint == hint


def test_a_mistyped_variable_is_an_error_and_a_foreign_one_is_not() -> None:
    resolve({}, {"CRASH_PROCESSOR_PORT_8000_TCP": "tcp://10.0.0.1:8000", "CRASH_PROCESSOR_CONFIG": "x"})

    with raises(InputError, wording("crash-processor.unknown-variable")) as caught:
        resolve({}, {"CRASH_PROCESSOR_NUMBER_OF_THREAD": "3"})

    assert caught.value.hint == wording(
        "command-line.did-you-mean", meant="CRASH_PROCESSOR_NUMBER_OF_THREADS"
    )


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("number_of_threads", "0", wording("crash-processor.wanted-count")),
        ("number_of_threads", "four", wording("crash-processor.wanted-count")),
        ("maximum_queue_size", "-1", wording("crash-processor.wanted-count")),
        ("kill_timeout", "0", wording("crash-processor.wanted-time-above")),
        ("kill_timeout", "501h", wording("crash-processor.wanted-time-below")),
        ("save_delay_ms", "1800000001", wording("crash-processor.wanted-time-below")),
        ("kill_timeout", "soon", wording("crash-processor.wanted-time")),
        ("backoff_delays", "1,x", wording("crash-processor.wanted-time")),
        ("fetch_delay_ms", "-1", wording("crash-processor.wanted-milliseconds")),
        ("number_of_threads", "1000000000", wording("crash-processor.wanted-at-most")),
        ("keep_results", "0", wording("crash-processor.wanted-count-or-all")),
        ("endless", "perhaps", wording("crash-processor.wanted-yes-or-no")),
        ("seed", "1.5", wording("crash-processor.wanted-whole-number")),
    ],
    ids=key_of,
)
def test_a_value_that_does_not_fit_is_named_with_what_would(name: str, text: str, wanted: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(_given(**{name: text}), {})

    assert wanted in end_of(caught.value.problem)
    assert caught.value.problem.startswith(f"--{name.replace('_', '-')}: {text!r} ")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("kill_timeout", "2m", 120.0),
        ("kill_timeout", "500ms", 0.5),
        ("graceful_timeout", "0", 0.0),
        ("fetch_delay_ms", "4", 4.0),
        ("fetch_delay_ms", "1.5s", 1500.0),
        ("backoff_delays", "", ()),
        ("backoff_delays", "10, 30", (10.0, 30.0)),
        ("keep_results", "all", None),
        ("seed", "-3", -3),
        ("quit_on_empty_queue", "yes", True),
        ("endless", "off", False),
    ],
)
def test_values_are_read_as_people_write_them(name: str, text: str, value: object) -> None:
    assert getattr(resolve(_given(**{name: text}), {}), name) == value


def test_an_unknown_profile_is_named_with_what_there_is() -> None:
    with raises(InputError, wording("crash-processor.no-profile-socorro")) as caught:
        resolve(_given(profile="socorro"), {})

    assert caught.value.hint is not None
    assert "socorro-2014" in caught.value.hint


def _command(template: str | None, **how: object) -> StackwalkCommand:
    return StackwalkCommand(template, stackwalker="/opt/walk", symbols=["/sym a", "/b"], **how)  # type: ignore[arg-type]


def test_a_command_line_is_an_argument_list_whatever_is_in_the_names() -> None:
    command = _command(
        "env X=1 {minidump_stackwalk_pathname} --json {dump_file_pathname} {processor_symbols_pathname_list}"
    )

    assert command.arguments(Path("/tmp/$(rm) ;x.dump")) == [
        "env", "X=1", "/opt/walk", "--json", "/tmp/$(rm) ;x.dump", "/sym a", "/b"
    ]  # fmt: skip


def test_a_command_line_may_be_written_as_in_2014() -> None:
    command = _command(
        "$minidump_stackwalk_pathname -m '$dump_file_pathname' $processor_symbols_pathname_list"
    )

    assert command.arguments(Path("a.dump")) == ["/opt/walk", "-m", "a.dump", "/sym a", "/b"]


def test_our_own_stackwalker_gets_a_cpu_limit_and_passes_and_others_do_not() -> None:
    own = StackwalkCommand(None, stackwalker="/bin/crash-stackwalk", symbols=[], kill_timeout_s=2.5, passes=7)

    assert own.arguments(Path("d"))[1:] == ["--json", "--cpu-limit", "3", "--passes", "7", "d"]
    assert _command(None).arguments(Path("d")) == ["/opt/walk", "--json", "d", "/sym a", "/b"]
    with raises(InputError, wording("crash-processor.passes-of-own-stackwalker")):
        _command(None, passes=2)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{minidump_stackwalk_pathnam}", "unknown field 'minidump_stackwalk_pathnam'"),
        ("{}", "unknown field ''"),
        ("walk 'x", "cannot be split"),
        ("   ", "is empty"),
    ],
)
def test_a_command_line_that_cannot_be_is_refused(template: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        _command(template)
