"""Settings of a layout in the words of other tools, read back by the rules of each; real tools elsewhere."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tuner import __version__
from tuner.adapters.sqlite.digests import keep_everything
from tuner.adapters.sqlite.store import SqliteStore
from tuner.app.study_queries import rank_file
from tuner.cli import run
from tuner.core.domain.layout import parse_layout
from tuner.core.domain.rollout import Rollout
from tuner.core.errors import ConfigError
from tuner.core.stats.interval import Estimate
from tuner.reports.ranking.first_screen import has_answer
from tuner.reports.snippets import KINDS, fitting_kinds, snippet
from tuner.reports.snippets.provenance import provenance
from tuner.services.catalogue import known_services
from tuner.services.derived.rollouts import rollout_of

from ..raising import raises
from ..rollouts import HOSTILE, rolled_out, script
from ..wording import key_of, start_of, wording

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ROOT / "bench" / "studies"
COMPOSE = jsonschema.Draft7Validator(
    json.loads((ROOT / "tests/schemas/compose-spec.json").read_text("utf-8"))
)
FORMS = [(service.name, form.name) for service in known_services().values() for form in service.forms]


@pytest.fixture(params=FORMS, ids=lambda form: "-".join(form))
def of_a_form(request: pytest.FixtureRequest) -> Rollout:
    name, form_name = request.param
    service = known_services()[name]
    form = service.form(form_name)
    assert form is not None
    layout = "3x2" if form.threads else "3x-"
    return rolled_out(service.example, f"{layout}@{form_name}", variants=[form_name])


def test_nothing_that_is_only_for_measuring_gets_into_a_snippet(of_a_form: Rollout) -> None:
    kinds = fitting_kinds(of_a_form)

    for kind in kinds:
        text = snippet(kind, of_a_form)
        assert (
            re.search(r"TUNER_|no-control-socket|statsd|tuner_arq|tuner\d|DELETE_JOBS|--stats", text) is None
        )
        assert re.search(r"^[^#;]*--no-periodic", text, re.MULTILINE) is None
    assert {"supervisor", "systemd", "ansible"} <= set(kinds)


def test_every_yaml_of_every_form_is_what_its_reader_takes(of_a_form: Rollout) -> None:
    deployment = yaml.safe_load(snippet("kubernetes", of_a_form))
    override = yaml.safe_load(snippet("compose", of_a_form))

    COMPOSE.validate(override)
    assert deployment["spec"].get("replicas", 1) == of_a_form.n_programs
    (service,) = override["services"].values()
    assert service.get("deploy", {}).get("replicas", 1) == of_a_form.n_programs
    assert service["stop_signal"] == f"SIG{of_a_form.stop_signal}"


def test_the_layout_is_reported_as_the_study_told_it() -> None:
    assert rolled_out("gunicorn app:app", "4x6").environment == {
        "GUNICORN_CMD_ARGS": "--workers=4 --threads=6 --worker-class=gthread"
    }
    assert rolled_out("gunicorn app:app -w 3", "4x6").command == (
        *("gunicorn", "app:app", "-w", "3"),
        *("--workers=4", "--threads=6", "--worker-class=gthread"),
    )
    assert rolled_out("huey_consumer app.huey", "3x2").command == (
        *("huey_consumer", "app.huey", "--workers=2", "--worker-type=thread"),
    )
    assert rolled_out("arq app.WorkerSettings", "3x20").command == ("arq", "app.WorkerSettings")
    assert rolled_out("uwsgi --http11-socket :8000 --module a", "2x4").own_command == (
        *("uwsgi", "--http11-socket", ":8000", "--module", "a"),
    )


def test_what_has_to_be_done_by_hand_is_said() -> None:
    assert "max_jobs = 20" in snippet("procfile", rolled_out("arq app.WorkerSettings", "3x20"))
    assert "--no-periodic" in snippet("supervisor", rolled_out("huey_consumer app.huey", "3x2"))
    assert "--no-periodic" not in snippet("supervisor", rolled_out("huey_consumer app.huey", "1x2"))
    assert "STOPSIGNAL SIGINT" in snippet("kubernetes", rolled_out("huey_consumer app.huey", "3x2"))


def test_several_nodes_on_a_box_are_kept_apart_and_a_single_one_keeps_its_name() -> None:
    several = rolled_out("celery -A a worker", "2x8@threads", variants=["threads"])
    alone = rolled_out("celery -A a worker -c 3", "8x-")

    assert 'CELERY_WORKER_HOSTNAME="celery%(process_num)d@%%h"' in snippet("supervisor", several)
    assert 'Environment="CELERY_WORKER_HOSTNAME=celery%i@%%h"' in snippet("systemd", several)
    assert "celery1@%h" in snippet("procfile", several)
    assert "HOSTNAME" not in snippet("kubernetes", several)  # each pod has a host name of its own
    assert wording("export.own-hostname-for-each") in snippet("env", several)
    assert "HOSTNAME" not in snippet("supervisor", alone)
    assert (" ".join(alone.command), alone.n_programs) == (
        "celery -A a worker --pool=processes --concurrency=8",
        1,
    )


@pytest.mark.parametrize(
    ("command", "layout", "kind", "said"),
    [
        ("celery -A a worker", "4x-", "gunicorn", wording("export.of-another-server", service="celery")),
        ("gunicorn a:a", "2x2", "uwsgi", wording("export.no-uwsgi")),
        ("dramatiq app", "2x2", "env", wording("export.layout-in-command")),
        ("work --name w{process}", "2x2", "kubernetes", wording("export.numbered-programs")),
        ("work 'a\nb'", "2x2", "supervisor", wording("export.line-break")),
        ("work 'a\x1bb'", "2x2", "procfile", wording("export.control-character")),
    ],
    ids=key_of,
)
def test_a_kind_that_makes_no_sense_says_so_and_names_those_that_fit(
    command: str, layout: str, kind: str, said: str
) -> None:
    rollout = rolled_out(command, layout)

    with raises(ConfigError, said) as result:
        snippet(kind, rollout)
    assert result.value.hint is not None
    assert result.value.hint == f"These fit: {', '.join(fitting_kinds(rollout))}."
    assert kind not in fitting_kinds(rollout)


def test_a_script_is_started_as_often_and_reported_as_much_as_in_the_study() -> None:
    rollout = rolled_out("work --at {process}", "3x2", environment={"N": "{threads}", "BRACES": "{{x}}"})

    assert rollout.n_programs == 3
    assert snippet("procfile", rollout).splitlines()[-3:] == [
        f"worker_{n}: exec env TUNER_PROCESSES=3 TUNER_THREADS=2 TUNER_PROCESS={n} 'BRACES={{x}}' N=2"
        f" work --at {n}"
        for n in range(3)
    ]
    assert "numprocs=3" in snippet("supervisor", rollout)
    alike = rolled_out("work", "3x2")
    assert wording("export.number-of-process-missing") in snippet("kubernetes", alike)
    assert {"name": "TUNER_THREADS", "value": "2"} in yaml.safe_load(snippet("kubernetes", alike))["spec"][
        "template"
    ]["spec"]["containers"][0]["env"]


def test_what_told_the_probe_of_a_script_is_left_out_and_named() -> None:
    probe = {"kind": "statsd", "name": "done"}
    rollout = rolled_out("work --statsd {TUNER_STATSD} --fast", "2x2", probe=probe)

    assert rollout.command == ("work", "--fast")
    assert wording("export.left-out-as-it-told-the-probe") in snippet("systemd", rollout)


def test_secrets_are_named_and_never_written() -> None:
    secret = {"API_TOKEN": "xyzzy", "PLAIN": "1"}
    rollout = rolled_out("work --url redis://me:xyzzy@h/0", "2x2", environment=secret)

    for kind in fitting_kinds(rollout):
        text = snippet(kind, rollout)
        assert "xyzzy" not in text
        assert wording("export.variable-had-a-value") in " ".join(text.split())
        assert re.search(r"API_TOKEN ?[=:]", text) is None
    assert wording("export.put-yours-in-place") in snippet("supervisor", rollout)


def test_variants_of_the_users_own_bring_their_commands() -> None:
    section = {
        **script(("work",)),
        "variants": {"new": {"command": ["/opt/new/python", "work"], "environment": {"MALLOC": "je"}}},
    }
    rollout = rollout_of(section, parse_layout("2x2@new"), 2, known_services())

    assert rollout.command == ("/opt/new/python", "work")
    assert rollout.is_command_needed
    assert (rollout.environment["MALLOC"], rollout.environment["TUNER_VARIANT"]) == ("je", "new")


def test_a_record_that_is_not_installed_is_reported() -> None:
    with raises(ConfigError, wording("export.record-not-installed")):
        rollout_of({**script(("x",)), "record": "shopworker"}, rolled_out("x", "1x1").layout, 2, {})


@pytest.mark.parametrize(
    "forged",
    [
        {"environment": {"A\nExecStartPre": "x"}},
        {"stop": {"signal": "TERM\nx"}},
        {"limits": {"nofile\nx": 1}},
        {"variants": {"v": {"environment": {"A B": "x"}}}},
    ],
)
def test_names_that_no_study_of_ours_holds_are_refused(forged: dict[str, Any]) -> None:
    with raises(ConfigError, wording("export.which-is-no")):
        rollout_of({**script(("x",)), **forged}, rolled_out("x", "1x1").layout, 2, {})


# What each reader makes of hostile words.


@pytest.fixture(params=HOSTILE, ids=range(len(HOSTILE)))
def hostile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def of_hostile(text: str, kind: str) -> tuple[str, Rollout] | None:
    """The snippet of a script with *text* in its command and its environment; None where it is refused."""
    rollout = replace(
        rolled_out("work", "1x1"), command=("work", text), is_command_needed=True, environment={"A": text}
    )
    try:
        return snippet(kind, rollout), rollout
    except ConfigError:
        assert not text.isprintable()
        return None


def test_supervisor_reads_hostile_texts_as_they_are(hostile: str, tmp_path: Path) -> None:
    made = of_hostile(hostile, "supervisor")
    if made is None:
        return

    command, environment = read_by_supervisor(made[0], tmp_path)

    if command[0] == "/usr/bin/env":  # what environment= cannot hold
        assert command[1:] == [f"A={hostile}", "work", hostile]
    else:
        assert command == ["work", hostile]
        assert environment == {"A": hostile}


def read_by_supervisor(section: str, folder: Path) -> tuple[list[str], Mapping[str, str]]:
    from supervisor.options import ServerOptions

    (folder / "s.conf").write_text(f"[supervisord]\nnodaemon=true\n{section}", encoding="utf-8")
    options = ServerOptions()
    options.realize(["-c", str(folder / "s.conf")])
    (group,) = options.process_group_configs
    process = group.process_configs[0]
    return shlex.split(process.command), process.environment


def test_systemd_would_read_hostile_texts_as_they_are(hostile: str) -> None:
    made = of_hostile(hostile, "systemd")
    assert made is not None

    lines = [line for line in made[0].splitlines() if not line.startswith("#")]

    assert all(line.isprintable() for line in lines)
    assert read_as_systemd(lines[1].partition("=")[2]) == [f"A={hostile}"]
    assert [word.replace("$$", "$") for word in read_as_systemd(lines[3].partition("=")[2])] == [
        "work",
        hostile,
    ]


def read_as_systemd(text: str) -> list[str]:
    """Words in double quotes, by the rules of systemd.syntax(7) and systemd.unit(5)."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', text)
    assert " ".join(f'"{word}"' for word in words) == text
    return [
        re.sub(
            r"\\x(..)|\\u(....)|\\U(.{8})|\\(.)|%%",
            lambda m: m[4] or (chr(int(m[1] or m[2] or m[3], 16)) if m[0] != "%%" else "%"),
            word,
        )
        for word in words
    ]


def test_yaml_holds_hostile_texts_as_they_are(hostile: str) -> None:
    for kind in ("kubernetes", "compose"):
        made = of_hostile(hostile, kind)
        assert made is not None
        read = yaml.safe_load(made[0])
        if kind == "kubernetes":
            (container,) = read["spec"]["template"]["spec"]["containers"]
            command = container["command"] + container["args"]
            value = {one["name"]: one["value"] for one in container["env"]}["A"]
        else:
            (service,) = read["services"].values()
            command = service["entrypoint"] + service["command"]
            value = service["environment"]["A"]
        assert [word.replace("$$", "$") for word in command] == ["work", hostile]
        assert value.replace("$$", "$") == hostile
        assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", value), "a single $ begins a variable"


def test_a_procfile_starts_hostile_words_as_they_are(hostile: str, tmp_path: Path) -> None:
    made = of_hostile(hostile, "procfile")
    if made is None:
        return
    line = made[0].splitlines()[-1]
    name, _, command = line.partition(": exec ")
    shown = command.replace(" work ", " /usr/bin/printf '%s\\0' ", 1).replace("env ", "env -i ", 1)

    done = subprocess.run(["sh", "-c", shown], capture_output=True, check=True)

    assert name == "worker"
    assert done.stdout.split(b"\0")[0].decode() == hostile


def test_sh_reads_a_file_of_hostile_variables_as_they_are(hostile: str, tmp_path: Path) -> None:
    rollout = replace(rolled_out("work", "1x1"), environment={"A": hostile})
    if "env" not in fitting_kinds(rollout):
        with pytest.raises(
            ConfigError, match="line break" if not hostile.isprintable() else "readers of such"
        ):
            snippet("env", rollout)
        return
    (tmp_path / ".env").write_text(snippet("env", rollout), encoding="utf-8")

    done = subprocess.run(
        ["sh", "-c", '. ./.env; printf "%s" "$A"'], cwd=tmp_path, capture_output=True, check=True
    )

    assert done.stdout.decode() == hostile


def test_comments_stay_comments_whatever_a_study_holds() -> None:
    bad = "x\nroot: evil\x1b[31m\u2028y\x85z"
    rollout = replace(rolled_out("gunicorn a:a", "2x2"), provenance=(bad,), remarks=(bad,))

    for kind in fitting_kinds(rollout):
        text = snippet(kind, rollout)
        assert text.isascii()
        assert all(line.isprintable() for line in text.splitlines())
        assert not re.search(r"^root", text, re.MULTILINE)
        plain = snippet(kind, replace(rollout, provenance=(), remarks=()))
        assert [line for line in text.splitlines() if line[0] not in "#;"] == [
            line for line in plain.splitlines() if line[0] not in "#;"
        ]


@pytest.mark.parametrize("name", ["a b", "../x", "x]\n[evil", "ä", ""])
def test_names_of_services_are_made_fit(name: str) -> None:
    for kind in KINDS:
        rollout = replace(rolled_out("gunicorn a:a", "2x2"), service=name)
        if kind in fitting_kinds(rollout):
            text = snippet(kind, rollout)
            assert "[evil" not in re.sub(r"^[#;].*$", "", text, flags=re.MULTILINE)


# The command.


def test_a_snippet_of_the_winner_is_printed_with_where_it_comes_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["export", str(STUDIES / "gunicorn-2-cores-busy.tuner.db"), "--snippet", "gunicorn"]) == 0

    said = capsys.readouterr().out
    assert said.splitlines()[-3:] == ["workers = 2", "threads = 2", "worker_class = 'gthread'"]
    assert wording("export.comment-of-snippet") in said
    assert "gunicorn-2-cores-busy.tuner.db" in said
    assert re.search(r"2x2@gthread: \d+ items in 10 minutes \(\d+ to \d+, 95 %\)", said)
    assert wording("rank.measured-best-not-ruled-out") in said


def test_another_layout_can_be_requested(capsys: pytest.CaptureFixture[str]) -> None:
    study = str(STUDIES / "gunicorn-2-cores-busy.tuner.db")

    assert run(["export", study, "--snippet", "env", "--layout", "4x-@sync"]) == 0

    said = capsys.readouterr().out
    assert "GUNICORN_CMD_ARGS='--workers=4 --threads=1 --worker-class=sync'" in said
    assert wording("export.not-the-first-of-the-study") in said


def test_without_an_answer_it_is_the_leaders_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    study = str(STUDIES / "crash-processor-2-cores-busy.tuner.db")

    assert run(["export", study, "--snippet", "supervisor"]) == 5
    assert wording("export.answer") in start_of(capsys.readouterr().out)


def test_a_full_grid_is_no_answer_before_all_its_layouts_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, part = STUDIES / "gunicorn-2-cores.tuner.db", tmp_path / "part.tuner.db"
    shutil.copy(whole, part)
    with closing(sqlite3.connect(part)) as file, file:
        file.execute("UPDATE study SET n_blocks = n_blocks + 1")
        keep_everything(file)

    assert run(["export", str(whole), "--snippet", "supervisor"]) == 0
    of_whole = capsys.readouterr().out
    assert run(["export", str(part), "--snippet", "supervisor"]) == 5
    assert wording("export.answer") in start_of(capsys.readouterr().out)
    assert wording("export.answer") not in start_of(of_whole)


def test_an_interval_that_tells_nothing_is_unknown() -> None:
    study, ranking = rank_file(STUDIES / "gunicorn-2-cores.tuner.db")
    first = ranking.rows[0]
    wide = replace(first, throughput_per_10min=Estimate(84732.0, 3910.0, 1836066.0))

    said = " ".join(provenance(study, replace(ranking, rows=(wide, *ranking.rows[1:])), first.layout, "s.db"))

    assert wording("export.unknown-interval") in said
    assert "1836066" not in said
    assert wording("export.unknown-interval") not in " ".join(
        provenance(study, ranking, first.layout, "s.db")
    )


def test_a_comparison_of_a_layout_with_itself_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    study = str(STUDIES / "crash-processor-2-cores-busy.aa.tuner.db")

    assert run(["export", study, "--snippet", "supervisor"]) == 5
    assert wording("export.answer") in start_of(capsys.readouterr().out)


def test_what_measured_best_under_a_load_that_was_too_small_is_no_answer() -> None:
    study, ranking = rank_file(STUDIES / "gunicorn-2-cores.tuner.db")
    starved = ranking.with_bound_by({row.layout: ("connections",) for row in ranking.rows}, None)

    assert [has_answer(study, one, None) for one in (ranking, starved)] == [True, False]


def test_what_keeps_no_limit_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    study = str(STUDIES / "gunicorn-2-cores-busy.tuner.db")

    limit = wording("rank.limit", quantity="load", value=0.001)
    assert run(["export", study, "--snippet", "env", "--max-load", "0.001"]) == 5
    assert wording("rank.no-layout-keeps", limits=limit) in capsys.readouterr().out


def test_where_nothing_was_measured_no_layout_leads_but_one_can_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SqliteStore.open(STUDIES / "gunicorn-2-cores-busy.tuner.db", read_only=True) as store:
        record = store.study()
    SqliteStore.create(tmp_path / "s.tuner.db", record).close()
    command = ["export", str(tmp_path / "s.tuner.db"), "--snippet", "env"]

    assert run(command) == 3
    assert wording("export.no-layout-leads") in capsys.readouterr().err
    assert run([*command, "--layout", "2x2@gthread"]) == 0
    assert wording("compare.layout-was-not-measured") in capsys.readouterr().out


PAGE = (ROOT / "docs" / "snippets.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("typed", re.findall(r"`tuner export (\S+-2-cores\S* --snippet [^`]+)`", PAGE))
def test_what_the_page_shows_is_what_is_printed(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    study, *options = typed.split()

    assert run(["export", str(STUDIES / study), *options]) == 0
    printed = capsys.readouterr().out.replace(f"by tuner {__version__} from", "by tuner 0.1.0 from")
    shown = PAGE.partition(f"`tuner export {typed}` prints:\n\n")[2].partition("\n\n")[0]
    lines = [line.removeprefix("    ") for line in f"{shown}\n".splitlines(keepends=True)]
    excerpts = [excerpt for excerpt in "".join(lines).split("...\n") if excerpt]
    assert excerpts
    for excerpt in excerpts:
        assert excerpt in printed
        printed = printed.partition(excerpt)[2]  # the excerpts stand in the order of the file


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--snippet", "sytemd"], wording("export.no-such-kind")),
        (["--snippet", "uwsgi"], wording("export.uwsgi-alone")),
        (["--snippet", "env", "--layout", "9x9"], wording("export.layout-not-there")),
        (["--snippet", "env", "--into", "x.md"], wording("export.snippet-goes-without", option="--into")),
        (["--snippet", "env", "--pictures"], wording("export.snippet-goes-without", option="--pictures")),
        (
            ["--snippet", "env", "--repeat-after", "30d"],
            wording("export.snippet-goes-without", option="--repeat-after"),
        ),
        (["--layout", "2x2@gthread"], wording("export.layout-of-snippet")),
    ],
    ids=key_of,
)
def test_what_cannot_be_is_reported_in_a_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(STUDIES / "gunicorn-2-cores-busy.tuner.db"), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_the_list_of_kinds_needs_no_study(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--snippet", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(KINDS)


def test_a_simulated_study_has_no_service_to_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    profile = str(ROOT / "configs" / "profiles" / "gil-bound.yaml")
    assert run(["grid", "--simulate", profile, "--cores", "2", "--study", "s.tuner.db"]) in (0, 5)

    assert run(["export", "s.tuner.db", "--snippet", "systemd"]) == 2
    assert "ran no service" in capsys.readouterr().err


def test_a_snippet_of_a_third_partys_service_needs_nothing_but_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "services" / "README.md").read_text(encoding="utf-8")
    (module,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    space: dict[str, Any] = {}
    exec(module, space)
    service = space["SERVICE"]
    monkeypatch.setitem(known_services(), service.name, service)  # type: ignore[arg-type]

    rollout = rolled_out("shopworker --queue orders", "3x4")

    assert (rollout.kind, rollout.environment, rollout.n_programs) == ("shopworker", {"SHOP_THREADS": "4"}, 3)
    assert "replicas: 3" in snippet("kubernetes", rollout)
    assert "SHOP_THREADS=4" in snippet("env", rollout)
    by_flags = rolled_out("shopworker -t 9", "3x4")
    assert by_flags.command == ("shopworker", "-t", "9", "--threads", "4")
    assert by_flags.own_command == ("shopworker",)
