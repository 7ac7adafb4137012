"""What is printed for programs is as docs/schema/ says, down to the last field."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.terminal.live_file import LiveFile
from tuner.app.serving import serve_studies
from tuner.core.domain.layout import Layout
from tuner.core.text.address import Address

from ..fleet_files import fleet_file
from ..printed import parts_of
from ..unit import boards
from ..wording import wording
from .typed import Typed

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {path.name.partition(".")[0]: path for path in (ROOT / "docs" / "schema").glob("*.schema.json")}
SOCORRO = ROOT / "configs" / "profiles" / "socorro-2014.yaml"
FEW = (
    "--simulate",
    SOCORRO,
    "--cores",
    "4",
    "--layouts",
    "4x1,2x2,1x4,1x1",
    "--window",
    "2m",
    "--warmup",
    "1m",
)


PRINTED: list[tuple[str, list[str | Path]]] = [
    ("ranking", ["rank", "a.tuner.db", "--json", "--current", "4x1", "--pareto", "--max-load", "20"]),
    ("ranking", ["rank", "a.tuner.db", "--json", "--objective", "throughput-per-cpu"]),
    ("ranking", ["export", "a.tuner.db", "--format", "json"]),
    ("ranking", ["grid", *FEW, "--json", "--within", "20%", "--study", "race.tuner.db"]),
    ("ranking", ["rank", "fleet.tuner.db", "--json"]),
    ("ranking", ["rank", "fleet.tuner.db", "--json", "--box", "box-1", "--box", "box-2"]),
    ("explain", ["explain", "a.tuner.db", "--json"]),
    ("calibrate", ["calibrate", "a.tuner.db", "--json"]),
    ("predict", ["predict", "a.tuner.db", "--json"]),
    ("predict", ["predict", SOCORRO, "--cores", "8", "--gil", "x0.8", "--json"]),
    ("plan", ["plan", *FEW, "--json", "--study", "plan.tuner.db"]),
    ("aa", ["aa", "--simulate", SOCORRO, "--cores", "4", "--layout", "4x1", "--json", "--study", "aa.db"]),
    ("check", ["check", "a.tuner.db", "--simulate", SOCORRO, "--json", "--to", "check.tuner.db"]),
    ("replay", ["replay", "two-same", "--surfaces", "2", "--processes", "1", "--json"]),
    ("services", ["services", "--json"]),
    *(("service", ["services", "show", one, "--json"]) for one in ("gunicorn", "celery", "rq")),
    ("watch", ["watch", "a.tuner.db", "--json"]),
    ("compare", ["compare", "a.tuner.db", "b.tuner.db", "--json"]),
    ("lab", ["lab", "--json"]),  # tests/services/test_lab.py runs one
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _wide() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        yield


@pytest.fixture(scope="module")
def tuner(tmp_path_factory: pytest.TempPathFactory) -> Typed:
    """Where two grids are."""
    typed = Typed(tmp_path_factory.mktemp("json"))
    for seed, name in ((1, "a"), (2, "b")):
        done = typed(
            "grid",
            *FEW,
            "--strategy",
            "all",
            "--repeats",
            "3",
            "--seed",
            str(seed),
            "--study",
            f"{name}.tuner.db",
        )
        assert done.returncode == 0, done.stderr
    fleet_file(typed.folder / "fleet.tuner.db")
    return typed


def strict(schema: Any) -> Any:
    """*schema* as the tests read it: what it does not name is not there."""
    if isinstance(schema, dict):
        read = {name: strict(inner) for name, inner in schema.items()}
        if "properties" in read and read.get("type") == "object":
            read.setdefault("additionalProperties", False)
        return read
    return [strict(inner) for inner in schema] if isinstance(schema, list) else schema


def check(name: str, text: str) -> Any:
    facts = json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
    schema = strict(json.loads(SCHEMAS[name].read_text(encoding="utf-8")))
    wrong = [
        f"{error.json_path}: {error.message[:200]}"
        for error in Draft202012Validator(schema).iter_errors(facts)
    ]

    assert wrong == []
    assert facts["schema_version"] == 1
    return facts


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_one_and_is_named_on_the_page_of_json(name: str) -> None:
    schema = json.loads(SCHEMAS[name].read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)

    assert f"(schema/{name}.schema.json)" in (ROOT / "docs" / "json.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_of_a_schema_is_described_in_it(name: str) -> None:
    schema = json.loads(SCHEMAS[name].read_text(encoding="utf-8"))

    bare = [field for field, of in fields_of(schema) if not of.get("description", "").endswith(".")]
    assert bare == []


def fields_of(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every field of a schema and of its parts, with its description in the schema."""
    if isinstance(schema, list):
        for inner in schema:
            yield from fields_of(inner)
    elif isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield from schema["properties"].items()
        for inner in schema.values():
            yield from fields_of(inner)


@pytest.mark.parametrize(
    ("command", "part", "name"),
    [
        (command, part, name)
        for command, name in (("rank", "ranking"), ("calibrate",) * 2, ("predict",) * 2, ("explain",) * 2)
        for part in parts_of(command)
        if part.endswith(".json")
    ],
)
def test_what_is_kept_as_it_should_be_is_as_its_schema_says(command: str, part: str, name: str) -> None:
    check(name, parts_of(command)[part])


def test_a_plan_of_what_is_not_known_says_why(tuner: Typed) -> None:
    done = tuner("grid", *FEW, "--strategy", "all", "--repeats", "1", "--study", "once.tuner.db")
    assert done.returncode == 0, done.stderr

    done = tuner("plan", "once.tuner.db", "--json")

    facts = check("plan", done.stdout)
    assert (done.returncode, facts["pilot"], facts["costs"]) == (5, None, [])
    assert facts["unknown"] == done.stderr.strip()
    assert facts["unknown"].startswith(wording("check.no-layout-with-two-launches"))
    assert facts["layouts"] == ["4x1", "2x2", "1x4", "1x1"]


def _those_that_take_long(printed: tuple[str, list[str | Path]]) -> Any:
    return pytest.param(*printed, marks=pytest.mark.full) if printed[0] == "plan" else printed


@pytest.mark.parametrize(("name", "words"), [_those_that_take_long(one) for one in PRINTED])
def test_what_a_command_prints_for_programs_is_as_its_schema_says(
    tuner: Typed, name: str, words: list[str | Path]
) -> None:
    done = tuner(*words)

    assert done.returncode in (0, 4, 5), done.stderr
    check(name, done.stdout)


def test_what_is_served_for_programs_is_as_its_schema_says(tuner: Typed, tmp_path: Path) -> None:
    shutil.copy(tuner.folder / "a.tuner.db", tmp_path)
    (tmp_path / "torn.tuner.db").write_text("no study")
    result = LiveFile(tmp_path / "runs.tuner.db", lambda slug, text: pytest.fail(f"{slug}: {text}"))
    result.warning("left-out", "<b>24x1</b> is left out")
    with (
        SqliteStore.create(tmp_path / "runs.tuner.db", boards.study_of(["4x6", "6x4"])),
        result.written(3, 1),
        serve_studies([tmp_path], Address("127.0.0.1", 0)) as served,
    ):
        result.launch_started(Layout(4, 6), 2, 0, 3600.0)

        def get(path: str) -> str:
            with urllib.request.urlopen(f"http://{served.address}{path}", timeout=60) as answer:
                return answer.read().decode()

        listed = check("studies", get("/api/studies"))["studies"]
        rests = check("now", get("/study/a.tuner.db/now"))
        runs = check("now", get("/study/runs.tuner.db/now"))
        both = json.loads(get("/api/study/runs.tuner.db"))

    problems = [one.get("problem") for one in listed]
    assert problems == [None, None, wording("study-file.not-of-tuner", file="torn.tuner.db")]
    assert (rests["is_measured"], rests["live"]) == (False, None)
    assert (runs["live"]["layout"], runs["live"]["n_void"]) == ("4x6", 1)
    assert both.pop("now").keys() == runs.keys() - {"schema_version", "version"}
    check("ranking", json.dumps(both))


def test_what_runs_on_several_boxes_is_as_the_schemas_say(tmp_path: Path) -> None:
    result = LiveFile(tmp_path / "runs.tuner.db", lambda slug, text: pytest.fail(f"{slug}: {text}"))
    with (
        SqliteStore.create(tmp_path / "runs.tuner.db", boards.study_of(["4x6", "6x4"])),
        result.written(3, 1),
        serve_studies([tmp_path], Address("127.0.0.1", 0)) as served,
    ):
        for box, layout in (("box-1", Layout(4, 6)), ("box-2", Layout(6, 4))):
            result.turn_to(box)
            result.launch_started(layout, 2, 0, 3600.0)
        with urllib.request.urlopen(f"http://{served.address}/study/runs.tuner.db/now", timeout=60) as answer:
            now = check("now", answer.read().decode())
        watched = check("watch", Typed(tmp_path)("watch", "runs.tuner.db", "--json").stdout)

    for live in (now["live"], watched["live"]):
        assert [(one["box"], one["layout"]) for one in live["boxes"]] == [("box-1", "4x6"), ("box-2", "6x4")]
    assert [name for name, _ in now["rows"]] == ["box-1", "box-2", "windows", "left"]


@pytest.mark.parametrize(
    "words",
    [
        ["export", "a.tuner.db", "--format", "csv"],
        ["export", "a.tuner.db", "--format", "csv", "--max-load", "20", "--max-memory", "8G", "--pareto"],
        ["export", "a.tuner.db", "--format", "csv", "--objective", "throughput-per-cpu", "--costs", "cpu"],
        ["compare", "a.tuner.db", "b.tuner.db", "--format", "csv"],
    ],
)
def test_every_column_of_a_table_for_programs_is_on_the_page_or_in_a_schema(
    tuner: Typed, words: list[str]
) -> None:
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    schemas = [json.loads(path.read_text(encoding="utf-8")) for path in SCHEMAS.values()]
    named = {field for field, _ in fields_of(schemas)}.union(re.findall(r"\w+", page))
    reported = {re.sub("_(low|high|mean|ratio)*(_low|_high)?$", "", name) for name in named}
    columns = tuner(*words).stdout.splitlines()[0].split(",")
    stems = {re.sub("_(low|high|mean|ratio)*(_low|_high)?$", "", column) for column in columns}

    assert {stem for stem in stems if not {stem, as_of_load(stem)} & reported} == set()


def as_of_load(stem: str) -> str:
    """Columns of limits and fronts are told for the load, and are alike for the others."""
    return re.sub("(?<=^limited_)(memory_bytes|p95_s)|^(memory|cpu)(?=_)|(?<=^on_)(memory|cpu)", "load", stem)


def test_every_command_that_prints_json_is_tried() -> None:
    commands = {
        path.stem for path in (ROOT / "tuner" / "cli").glob("*.py") if '"--json"' in path.read_text("utf-8")
    }
    shared = {
        path.stem for path in (ROOT / "tuner" / "cli").glob("*.py") if "AsJson" in path.read_text("utf-8")
    }
    #: test_fleet_boxes.py has boxes to list, what doctor prints depends on the host (test_doctor.py),
    #: and a demonstration, which takes a minute, prints what rank prints (test_demo.py)
    elsewhere = {"fleet", "doctor", "demo"}
    named = {words[0] for _, words in PRINTED} | elsewhere

    assert (commands | shared) - {"options", "session"} <= named
