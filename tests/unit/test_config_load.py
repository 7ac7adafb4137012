from __future__ import annotations

from pathlib import Path

import pytest

from tuner.app.plan_builder import plan_record
from tuner.bootstrap.configs import settings_of
from tuner.config.load import Given, canonical_json, load_settings, settings_of_study
from tuner.config.settings import ScriptSettings, Settings
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError

from ..raising import raises
from ..wording import key_of, wording

pytestmark = pytest.mark.pythons

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted([*(ROOT / "configs").glob("*.yaml"), *(ROOT / "configs" / "lab").glob("*.yaml")])


def load(folder: Path, text: str, **options: str) -> Settings:
    path = folder / "s.yaml"
    path.write_text(text, encoding="utf-8")
    given = {("study", name): Given(f"--{name}", value) for name, value in options.items()}
    return load_settings(path, given)


def problems_of(folder: Path, text: str, **options: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, text, **options)
    return caught.value.problem.replace(f"{folder}/", "").splitlines()


def test_every_error_is_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """\
service:
  kind: script
  name: my worker
  command: [run, "{thread}", "{threads}"]
  enviroment: {A: b}
study:
  layouts: [0x4, 4x, 1x1, 1x1]
  window: 1:30
  repeats: four
  seed: 010
  warmup: 30
"""

    assert problems_of(tmp_path, text) == [
        "s.yaml:3:9: service.name: " + wording("config.name-of-files"),
        wording("config.no-such-field-of-command"),
        "s.yaml:5:3: service.enviroment: " + wording("config.unknown-key-meant", key="environment"),
        "s.yaml:7:13: study.layouts.0: " + wording("config.no-layout-to-run"),
        wording("config.no-layout-write"),
        wording("config.time-of-day-write"),
        wording("config.whole-number-got"),
        wording("config.octal-number"),
        wording("config.warmup-auto-or-duration"),
    ]


def test_a_program_that_starts_its_workers_itself_is_reported_how_many(tmp_path: Path) -> None:
    said = "s.yaml:1:69: service.programs: " + wording("config.one-program-untold")
    service = "service: {kind: script, name: web, command: gunicorn app, programs: one%s}"

    assert problems_of(tmp_path, service % "") == [said]
    settings = load(tmp_path, service % ", environment: {WEB_CONCURRENCY: '{processes}'}")
    assert (settings.service.programs, settings.service.workers) == ("one", None)


def test_a_command_of_several_lines_is_one_command(tmp_path: Path) -> None:
    lines = [
        "service:",
        "  kind: script",
        "  name: w",
        "  command: |",
        "    python3 w.py \\",
        "      --threads {threads}",
    ]

    service = load(tmp_path, "\n".join(lines)).service

    assert isinstance(service, ScriptSettings)
    assert service.command == ("python3", "w.py", "--threads", "{threads}")


@pytest.mark.parametrize(
    ("threads", "layouts"),
    [("yes", "1x4 1x6 2x2 2x3 4x1 6x1"), ("no", "1x- 2x- 4x- 6x-")],
)
def test_layouts_fill_the_connections_that_there_may_be(tmp_path: Path, threads: str, layouts: str) -> None:
    command = "[run, '{threads}']" if threads == "yes" else "[run]"
    text = (
        f"service: {{kind: script, name: w, command: {command}, threads: {threads}, connections: threads}}\n"
    )

    settings = load(tmp_path, text + "study: {max_connections: 6}\n")

    assert " ".join(map(str, settings.layouts_for(8))) == layouts


def test_words_that_are_known_may_be_written_large(tmp_path: Path) -> None:
    text = (
        "service: {kind: script, name: w, command: [w, '{threads}']}\nstudy: {strategy: ALL, grid: Small}\n"
    )

    study = load(tmp_path, text).study

    assert (study.strategy, study.grid) == ("all", "small")


ERRORS = ROOT / "tests" / "golden" / "config_errors.txt"


def golden_cases() -> list[list[str]]:
    text = ERRORS.read_text(encoding="utf-8")
    return [case.strip().splitlines() for case in text.split("\n\n")[1:]]


@pytest.mark.parametrize(("text", "said"), golden_cases(), ids=[text for text, _ in golden_cases()])
def test_a_wrong_value_is_reported_with_its_place(
    tmp_path: Path, pytestconfig: pytest.Config, text: str, said: str
) -> None:
    problems = problems_of(tmp_path, text)
    if pytestconfig.getoption("reword") and problems != [said]:
        kept = ERRORS.read_text(encoding="utf-8")
        ERRORS.write_text(kept.replace(f"{text}\n{said}\n", f"{text}\n{problems[0]}\n"), encoding="utf-8")

    assert problems == [said]


def test_a_value_that_may_be_a_secret_is_not_shown(tmp_path: Path) -> None:
    text = "service: {kind: script, name: a, command: a, environment: {PASSWORD: [hunter2]}}"

    (problem,) = problems_of(tmp_path, text)

    assert "service.environment.PASSWORD" in problem
    assert "hunter2" not in problem


def test_an_option_goes_before_the_config_and_is_blamed_for_its_own_value(tmp_path: Path) -> None:
    text = "study: {window: 10m, grid: full, cores: 8}"

    assert load(tmp_path, text, window="5s").study.window == 5
    assert load(tmp_path, text, layouts="1x1,4x6@threads").study.layouts == (
        Layout(1, 1),
        Layout(4, 6, "threads"),
    )
    assert load(tmp_path, text, layouts="1x1").study.grid is None
    assert load(tmp_path, "study: {layouts: [1x1]}", grid="small").study.layouts is None
    assert problems_of(tmp_path, text, window="0s") == [wording("check.window-longer-than-0")]
    assert problems_of(tmp_path, text, layouts="0x4") == ["--layouts: " + wording("config.no-layout-to-run")]


def test_shares_are_written_in_percent_or_as_a_number_and_kept_as_a_number(tmp_path: Path) -> None:
    for text in ("5%", "5 %", "0.05", ".05"):
        study = load(tmp_path, f"study: {{within: {text}, confidence: 99.5%}}").study

        assert (study.within, study.confidence) == (0.05, 0.995)
    assert load(tmp_path, "study: {}", within="0.5%").study.within == 0.005
    settings = load(tmp_path, "study: {within: 3%}")
    assert settings_of_study(canonical_json(settings), "a.tuner.db") == settings


@pytest.mark.parametrize(
    ("study", "shortest_s"),
    [
        ("{}", 60.0),
        ("{window: 20s}", 20.0),
        ("{window: 5m, min_window: 2m}", 120.0),
        ("{strategy: all, window: 20s}", 20.0),
        ("{strategy: all}", 600.0),
    ],
)
def test_the_shortest_window_is_a_minute_unless_told_otherwise(
    tmp_path: Path, study: str, shortest_s: float
) -> None:
    assert load(tmp_path, f"study: {study}").study.shortest_window == shortest_s


def test_a_strategy_on_the_command_line_leaves_out_what_the_config_says_for_another_one(
    tmp_path: Path,
) -> None:
    grid = "study: {strategy: all, repeats: 5, windows_per_launch: 2}"
    race = "study: {within: 5%, kind: calibrated, min_window: 30s}"

    assert load(tmp_path, grid, strategy="race").study.repeats is None
    assert load(tmp_path, grid).study.repeats == 5
    assert load(tmp_path, race, strategy="all").study.within is None
    assert load(tmp_path, race, strategy="all", repeats="2").study.repeats == 2
    assert problems_of(tmp_path, race, strategy="all", within="3%") == [
        wording("config.within-of-another-strategy")
    ]
    assert problems_of(tmp_path, "study: {repeats: 5}") == [wording("config.repeats-of-another-strategy")]


POOLS = """service:
  kind: script
  name: jobs
  command: [run, "{threads}"]
  variants:
    threads: {}
    prefork: {threads: no, programs: one, command: [run, --fork, "{processes}"], environment: {POOL: prefork}}
"""


def test_variants_are_an_axis_each_with_the_threads_it_has(tmp_path: Path) -> None:
    settings = load(tmp_path, POOLS)

    assert [str(layout) for layout in settings.layouts_for(2)] == [
        *("1x1@threads", "1x2@threads", "1x4@threads", "2x1@threads", "2x2@threads"),
        *("1x-@prefork", "2x-@prefork", "4x-@prefork"),
    ]
    assert settings.service_in("prefork").environment == {"POOL": "prefork"}
    assert settings.service_in("threads").command == ("run", "{threads}")
    one = load(tmp_path, POOLS + "study: {variants: prefork}\n")
    assert {layout.variant for layout in one.layouts_for(2)} == {"prefork"}
    named = load(tmp_path, POOLS + "study: {layouts: [2x3@threads, 4x1@prefork]}\n")
    assert [str(layout) for layout in named.layouts_for(2)] == ["2x3@threads", "4x-@prefork"]
    assert settings_of_study(canonical_json(settings), "s.tuner.db") == settings


@pytest.mark.parametrize(
    ("layouts", "meant"),
    [
        ("2x1", ["2x1@threads", "2x-@prefork"]),
        ("1x4,8x-,2x1@threads", ["1x4@threads", "8x-@prefork", "2x1@threads"]),
    ],
)
def test_a_layout_that_names_no_variant_is_every_variant_that_can_have_it(
    tmp_path: Path, layouts: str, meant: list[str]
) -> None:
    settings = load(tmp_path, POOLS, layouts=layouts)

    assert [str(layout) for layout in settings.layouts_for(2)] == meant
    assert settings_of_study(canonical_json(settings), "s.tuner.db") == settings
    written = load(tmp_path, POOLS + f"study: {{layouts: [{layouts}]}}\n")
    assert written.layouts_for(2) == settings.layouts_for(2)


@pytest.mark.parametrize(
    ("study", "said"),
    [
        ("{layouts: [4x6@pool]}", "s.yaml:8:19: study.layouts.0: " + wording("config.of-no-variant")),
        (
            "{variants: prefrok}",
            "s.yaml:8:9: study.variants.0: " + wording("config.no-such-variant-meant"),
        ),
        (
            "{layouts: [1x4@prefork]}",
            wording("config.threads-unasked", layout="s.yaml:8:19: study.layouts.0: 1x4@prefork"),
        ),
        (
            "{layouts: [1x4], variants: [prefork]}",
            wording("config.threads-unasked", layout="s.yaml:8:19: study.layouts.0: 1x4"),
        ),
        (
            "{layouts: [8x-], variants: [threads]}",
            wording("config.threads-left-out", layout="s.yaml:8:19: study.layouts.0: 8x-"),
        ),
        (
            "{layouts: [1x4@threads, 2x1, 1x4]}",
            "s.yaml:8:37: study.layouts.2: " + wording("config.layout-named-before"),
        ),
        (
            "{layouts: [2x2, 4x4], max_connections: 4}",
            "s.yaml:8:24: study.layouts.1: " + wording("config.variant-opens-too-many"),
        ),
    ],
    ids=key_of,
)
def test_layouts_are_of_the_variants_that_a_service_has(tmp_path: Path, study: str, said: str) -> None:
    assert problems_of(tmp_path, POOLS + f"study: {study}\n") == [said]


def test_what_is_wrong_in_a_variant_is_reported_where_it_stands(tmp_path: Path) -> None:
    text = POOLS.replace('--fork, "{processes}"', '--threads, "{threads}"')

    assert problems_of(tmp_path, text) == [
        "s.yaml:7:69: service.variants.prefork.command.2: "
        + wording("config.variant-asks-for-threads", variant="prefork")
    ]


def test_layouts_that_open_too_many_connections_are_left_out_or_refused_by_name(tmp_path: Path) -> None:
    service = (
        "service: {kind: script, name: jobs, command: [run, '{threads}']%s}\nstudy: {max_connections: 3%s}\n"
    )

    threads = load(tmp_path, service % ("", ""))
    assert " ".join(map(str, threads.layouts_for(2))) == "1x1 1x2 1x3 2x1"
    assert " ".join(map(str, threads.left_out(2))) == "1x4 2x2"
    pool = load(tmp_path, service % (", connections: 2", ""))
    assert " ".join(map(str, pool.layouts_for(2))) == "1x1 1x2 1x4"
    assert problems_of(tmp_path, service % (", connections: 2", ", layouts: [1x9, 2x1]")) == [
        wording("config.too-many-connections")
    ]
    with raises(ConfigError, wording("config.every-layout-opens-more")):
        plan_record(load(tmp_path, service % (", connections: 9", "")))


def test_options_alone_make_settings_and_errors() -> None:
    settings = load_settings(None, {("study", "cores"): Given("--cores", "24")})

    assert len(settings.layouts_for(24)) == 22
    with raises(ConfigError, wording("command-line.whole-number")):
        load_settings(None, {("study", "cores"): Given("--cores", "many")})


def test_paths_are_read_from_the_config_s_folder(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "a.env").touch()

    settings = load(tmp_path, "service: {directory: work, environment_file: a.env, spool: /abs}")

    assert settings.service.directory == tmp_path / "work"
    assert settings.service.environment_file == tmp_path / "a.env"
    assert settings.service.kind == "crash-processor"
    assert settings.service.spool == Path("/abs")


def test_a_command_may_be_one_text_and_no_shell_reads_it(tmp_path: Path) -> None:
    service = load(
        tmp_path,
        "service: {kind: script, name: a, command: \"python -c 'print(1); x' $HOME {threads} > out\"}",
    ).service

    assert isinstance(service, ScriptSettings)
    assert service.command == ("python", "-c", "print(1); x", "$HOME", "{threads}", ">", "out")


def test_environment_values_stay_what_was_written(tmp_path: Path) -> None:
    settings = load(tmp_path, "service: {environment: {A: no, B: 010, C: 1:30, D: }}")

    assert settings.service.environment == {"A": "no", "B": "010", "C": "1:30", "D": ""}


def test_hooks_are_commands_or_lists_of_commands(tmp_path: Path) -> None:
    hooks = load(
        tmp_path, "hooks: {finished: mail -s 'all done' ops, before_launch: [sync, [echo, a b]]}"
    ).hooks

    assert hooks.finished == (("mail", "-s", "all done", "ops"),)
    assert hooks.before_launch == (("sync",), ("echo", "a b"))


def test_the_record_of_a_study_gives_its_settings_back(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "service: {kind: script, name: a, command: 'run {threads}', stop: {wait: 1.5s}}\n"
        "study: {layouts: [4x6, 1x24@t], window: 90s, warmup: 30s, budget: 8h}\n"
        "hooks: {finished: done}\nbackends: [redis-server]\n",
    )

    assert settings_of_study(canonical_json(settings), "a.tuner.db") == settings
    assert canonical_json(settings) == canonical_json(
        settings_of_study(canonical_json(settings), "a.tuner.db")
    )


def test_secrets_are_not_kept_and_have_to_be_named_again(tmp_path: Path) -> None:
    kept = canonical_json(load(tmp_path, "service: {environment: {DB_PASSWORD: hunter2}}"))

    assert "hunter2" not in kept
    assert "DB_PASSWORD" in kept
    with raises(ConfigError, wording("config.secrets-not-held")) as caught:
        settings_of_study(kept, "a.tuner.db")
    assert caught.value.hint == wording("config.name-config-again")


def test_a_config_that_is_not_there_not_text_or_a_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"study:\n  # caf\xe9\n")
    (tmp_path / "huge.yaml").write_bytes(b"#" * 300_000)
    for path, said in (
        (tmp_path / "none.yaml", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "latin.yaml", "latin.yaml:2:8: byte 0xe9 is not UTF-8"),
        (tmp_path / "huge.yaml", "larger than 256 KiB"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_settings(path, {})

        assert said in caught.value.problem
        assert "\n" not in caught.value.problem


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_config_of_the_project_loads(path: Path) -> None:
    assert load_settings(path, {}).service.name


def test_the_commented_example_names_every_key() -> None:
    text = (ROOT / "configs" / "crash_processor.yaml").read_text(encoding="utf-8")
    settings = Settings.model_json_schema(mode="serialization")
    sections = ("Settings", "StudySettings", "CrashProcessorSettings", "StopSettings", "HookSettings")
    known = {"Settings": settings, **settings["$defs"]}
    keys = {key for section in sections for key in known[section]["properties"]}

    assert {key for key in keys if f"{key}:" not in text} == set()


@pytest.mark.parametrize(("ready", "count"), [("pattern: up", "processes"), ("pattern: up, count: 2", 2)])
def test_a_study_continues_with_the_lines_it_waited_for_unless_the_config_gives_a_number(
    tmp_path: Path, ready: str, count: object
) -> None:
    """A study that an older tuner began waited for one line a process; by now one of the master is enough."""
    command = "[w, '{processes}', '{threads}']"
    (tmp_path / "s.yaml").write_text(
        f"service: {{kind: script, name: w, command: {command}, programs: one,"
        f" ready: {{kind: log, {ready}}}}}\n"
    )
    original = {"service": {"ready": {"kind": "log", "pattern": "up", "count": "processes"}}, "study": {}}

    new = load_settings(tmp_path / "s.yaml", {}).service
    resumed = load_settings(tmp_path / "s.yaml", {}, kept=original).service

    assert isinstance(new, ScriptSettings)
    assert isinstance(resumed, ScriptSettings)
    assert new.ready.count == (1 if "count" not in ready else 2)
    assert resumed.ready.count == count


@pytest.mark.parametrize(
    ("own", "key"),
    [
        ("", "rq:workers"),
        ("probe: {kind: redis, url: 'redis://h', count: [{llen: mine}]}, ", "mine"),
    ],
)
def test_a_study_counts_the_same_items_to_its_end_unless_the_config_has_a_probe(
    tmp_path: Path, own: str, key: str
) -> None:
    """An older tuner counted the workers of all queues of RQ."""
    (tmp_path / "s.yaml").write_text(f"service: {{kind: rq, {own}command: rq worker}}\n")
    before = {"kind": "redis", "url": "<hidden>", "count": [{"smembers_hget": ["rq:workers", "done"]}]}
    original = {"service": {"record": "rq", "probe": before}, "study": {}}

    new = settings_of(tmp_path / "s.yaml", {}).service
    resumed = settings_of(tmp_path / "s.yaml", {}, kept=original).service

    assert isinstance(new, ScriptSettings)
    assert isinstance(resumed, ScriptSettings)
    assert new.probe.count[0].asked[1] == ("mine" if own else "rq:workers:default")
    assert resumed.probe.count[0].asked[1] == key
    assert resumed.probe.url == new.probe.url
