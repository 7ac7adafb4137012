"""Axes of a service: the variants that they make, what is said when they go wrong, what a study keeps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.parts.services import StudyName, service_of
from tuner.cli.shared.option_parsing import axis_options, service_options
from tuner.config.load import Given, canonical_json, settings_of_study
from tuner.config.settings import Settings
from tuner.core.domain.layout import CommandChange, Layout, match_variants, parse_layout, variants_of
from tuner.core.domain.provenance import WorkerFacts
from tuner.core.domain.service import ServiceSpec, Workers
from tuner.core.errors import ConfigError
from tuner.services.derived.rollouts import rollout_of

from ..raising import raises
from ..wording import end_of, key_of, wording

JOBS = 'service:\n  kind: script\n  name: jobs\n  command: [python3, -u, w.py, "{threads}"]\n  axes:\n'


def settings(folder: Path, text: str) -> Settings:
    path = folder / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return settings_of(path, {})


def problem(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        settings(folder, text)
    return caught.value.problem.replace(f"{folder}/", "")


def test_axes_multiply_in_their_order() -> None:
    made = variants_of({"python": ["3.13", "3.11"], "malloc": ["glibc", "jemalloc"]})

    assert list(made) == ["3.13+glibc", "3.13+jemalloc", "3.11+glibc", "3.11+jemalloc"]
    assert match_variants("3.11+*", made) == ["3.11+glibc", "3.11+jemalloc"]
    assert match_variants("*", made) == []  # a star is one value


@pytest.mark.parametrize(
    ("words", "run"),
    [
        (["python3", "-u", "w.py"], "python3.13 -u w.py"),
        (["nice", "-n", "5", "python", "-m", "w"], "nice -n 5 python3.13 -m w"),
        (["env", "A=1", "/usr/bin/python3", "w.py"], "env A=1 python3.13 w.py"),
        (["celery", "-A", "app"], "python3.13 /bin/celery -A app"),
        (["nice", "celery", "worker"], "nice python3.13 /bin/celery worker"),
    ],
)
def test_another_interpreter_runs_the_same_program(words: list[str], run: str) -> None:
    assert CommandChange(interpreter=["python3.13"]).of(words, lambda word: f"/bin/{word}") == tuple(
        run.split()
    )


@pytest.mark.parametrize("words", [["uv", "run", "celery"], ["nginx", "-g"]])
def test_a_command_that_runs_no_python_of_its_own_is_refused(words: list[str]) -> None:
    with raises(ConfigError, wording("compare.write-command-value")):
        CommandChange(interpreter=["python3.13"]).of(words, lambda _word: None)


def test_each_variant_of_a_script_is_changed_by_a_value_of_each_axis(tmp_path: Path) -> None:
    asked = settings(
        tmp_path,
        JOBS + '    python: {"3.11": {}, "3.13": {interpreter: [python3.13, -X, dev]}}\n'
        "    other: {no: {}, yes:\n"
        "      {prepend: nice -n 1, append: [--b], replace: {-u: -B}, environment: {A: b}}}\n"
        'study: {grid: small, cores: 1, variants: ["*+yes", 3.11+no]}\n',
    )

    wanted = "nice -n 1 python3.13 -X dev -B w.py {threads} --b"
    both = asked.service_in("3.13+yes")
    assert both.command == tuple(wanted.split())
    assert both.environment == {"A": "b"}
    assert asked.service_in("3.11+no").command == ("python3", "-u", "w.py", "{threads}")
    assert [str(layout) for layout in asked.layouts_for(1)] == ["1x1@3.11+yes", "1x1@3.13+yes", "1x1@3.11+no"]


def test_a_study_keeps_axes_in_their_order(tmp_path: Path) -> None:
    asked = settings(
        tmp_path,
        JOBS + "    python: {new: {interpreter: python3.13}, base: {}}\n"
        "    malloc: {glibc: {}, arena: {environment: {A: b}}}\n",
    )

    kept = settings_of_study(canonical_json(asked), "s.tuner.db")
    assert kept == asked
    assert list(kept.service.axes) == ["python", "malloc"]
    assert list(kept.service.axes["python"]) == ["new", "base"]


def test_a_script_that_the_interpreter_is_to_run_is_found(tmp_path: Path) -> None:
    worker = tmp_path / "worker"
    worker.write_text(f"#!{sys.executable}\n")
    worker.chmod(0o755)
    text = (
        f"service:\n  kind: script\n  name: jobs\n  command: ./worker\n  directory: {tmp_path}\n"
        "  axes: {python: {a: {}, b: {interpreter: python3.13}}}\n"
    )

    assert settings(tmp_path, text).service_in("b").command == ("python3.13", str(worker))


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ("    python: {a: {interpreter: ruby}}\n",
         "s.yaml:6:31: service.axes.python.a.interpreter: " + wording("config.no-python-by-its-name")),
        ("    python: {}\n", "s.yaml:6:13: service.axes.python: " + wording("config.axis-without-value")),
        ("    python: {a+b: {}}\n",
         "s.yaml:6:14: service.axes.python.a+b: " + wording("config.name-of-variants", name="a+b")),
        (f"    a: {{{'x' * 65}: {{}}}}\n",
         f"s.yaml:6:9: service.axes.a.{'x' * 65}: " + wording("config.name-too-long")),
        ("    a: {x: {replace: {nil: one}}}\n",
         "s.yaml:6:22: service.axes.a.x.replace: " + wording("config.no-such-word")),
        ("    a: {x: {environment: {A: b}}}\n    b: {x: {environment: {A: c}}}\n",
         "s.yaml:7:26: service.axes.b.x.environment: " + wording("config.variable-of-two-axes")),
        ("    a: {x: {comand: w}}\n",
         "s.yaml:6:13: service.axes.a.x.comand: " + wording("config.unknown-key-meant", key="command")),
        ("    a: {x: {threads: no}}\n",
         "s.yaml:6:22: service.axes.a.x.threads: " + wording("config.variant-asks-for-threads", variant="x")),
        ("    a: {x: {append: ['{threads}'], replace: {'{threads}': one}, threads: no}}\n",
         "s.yaml:6:74: service.axes.a.x.threads: " + wording("config.variant-asks-for-threads", variant="x")),
        ("    a: {x: {}}\n  variants: {y: {}}\n",
         "s.yaml:7:13: service.variants: " + wording("config.axes-or-variants")),
    ],
    ids=key_of,
)  # fmt: skip
def test_what_is_wrong_with_an_axis_is_reported_where_it_stands(tmp_path: Path, axes: str, said: str) -> None:
    assert problem(tmp_path, JOBS + axes) == said


def test_too_many_variants_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    values = "{" + ", ".join(f"v{n}: {{}}" for n in range(11)) + "}"

    assert wording("config.too-many-variants") in end_of(
        problem(tmp_path, JOBS + f"    a: {values}\n    b: {values}\n")
    )
    text = JOBS + "    a: {x: {}, y: {}}\nstudy: {variants: [x, z]}\n"
    assert problem(tmp_path, text) == wording("config.no-such-variant")


def test_an_axis_of_a_known_service_is_read_as_its_command_is(tmp_path: Path) -> None:
    asked = settings(
        tmp_path,
        "service:\n  kind: gunicorn\n  command: gunicorn app:app --bind 127.0.0.1:8123\n  axes:\n"
        "    pool: {gthread: {}, sync: {append: [-k, sync]}}\n    e: {no: {}, yes: {environment: {A: b}}}\n",
    )

    threads = {name: asked.service.of(name).threads for name in asked.service.variants}
    assert threads == {"gthread+no": True, "gthread+yes": True, "sync+no": False, "sync+yes": False}
    assert asked.service_in("sync+yes").environment["A"] == "b"


def test_interpreters_that_are_typed_are_an_axis_of_a_known_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gunicorn = tmp_path / "gunicorn"
    gunicorn.write_text("#!/usr/bin/python3\n")
    gunicorn.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    typed = {
        ("service", "command"): Given("--", "gunicorn app:app --bind 127.0.0.1:8123"),
        ("study", "layouts"): Given("--layouts", "1x4"),
        ("service", "axes", "python", "3.13", "interpreter"): Given("--python", "/opt/python3.13"),
        ("service", "axes", "python", "3.14t", "interpreter"): Given("--python", "/opt/python3.14t -X gil=0"),
    }

    asked = settings_of(None, typed)

    assert [str(layout) for layout in asked.layouts_for(2)] == ["1x4@3.13", "1x4@3.14t"]
    command = asked.service_in("3.14t").command
    assert command[:5] == ("/opt/python3.14t", "-X", "gil=0", str(gunicorn), "app:app")
    assert asked.service.record == "gunicorn"
    assert settings_of_study(canonical_json(asked), "s.tuner.db") == asked


CRASHES = (
    "service:\n  kind: crash-processor\n  prepend: nice\n"
    "  options: {profile: socorro-2014, log_level: info}\n"
    '  axes:\n    python: {own: {}, "3.13": {interpreter: python3.13, prepend: [taskset, -c, "0"]}}\n'
    "    pool: {auto: {}, threaded: {options: {producer_consumer_class: threaded}}}\n"
)


def test_the_built_in_worker_has_axes_too(tmp_path: Path) -> None:
    asked = settings(tmp_path, CRASHES)

    kept = settings_of_study(canonical_json(asked), "s.tuner.db")
    assert kept == asked
    one, other = (kept.service_in(name) for name in ("own+auto", "3.13+threaded"))
    assert (one.prepend, one.interpreter) == (("nice",), None)
    assert (other.prepend, other.interpreter) == (("taskset", "-c", "0", "nice"), ("python3.13",))
    assert other.options == {**one.options, "producer_consumer_class": "threaded"}
    assert len(asked.layouts_for(2)) == 4 * 5


def test_what_starts_a_variant_of_the_built_in_worker_in_production_is_reported(tmp_path: Path) -> None:
    section = settings(tmp_path, CRASHES).service.model_dump(mode="json")

    found = rollout_of(section, Layout(1, 2, "3.13+threaded"), 2, {})

    assert found.command[:5] == ("taskset", "-c", "0", "nice", "python3.13")
    assert found.command[5:8] == ("-m", "tuner_workers.crash_processor", "run")
    assert "--producer-consumer-class" in found.command
    assert wording("export.install-tuner") in found.remarks


def test_variants_that_the_built_in_worker_has_not_made_of_axes_are_refused(tmp_path: Path) -> None:
    said = problem(tmp_path, "service: {kind: crash-processor, variants: {a: {}}}")

    assert wording("config.axes-of-built-in-worker") in said


def test_facts_of_the_workers_are_kept_once_or_for_each_variant() -> None:
    facts = WorkerFacts.of_variants({
        "a": {"worker_python": "CPython 3.11.7", "worker_gil": "on", "worker_path": "vfork+exec"},
        "b": {"worker_python": "CPython 3.13.0", "worker_gil": "on"},
    })  # fmt: skip

    assert facts.of_all("worker_gil") == "on"
    assert facts.fact("worker_gil", "b") == "on"
    assert facts.fact("worker_python", "b") == "CPython 3.13.0"
    assert (facts.fact("worker_path", "a"), facts.fact("worker_path", "b")) == ("vfork+exec", None)
    assert facts.by_variant("worker_python") == {"a": "CPython 3.11.7", "b": "CPython 3.13.0"}
    assert WorkerFacts.of_variants({"": {"worker_gil": "on"}}) == WorkerFacts({"worker_gil": "on"})


def test_a_profile_takes_the_place_of_one_service_only(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("study: {cores: 2}\n" + JOBS + "    a: {x: {}, y: {}}\n")

    with raises(ConfigError, "s.yaml:6:3: " + wording("config.profile-without-variants")):
        settings_of(tmp_path / "s.yaml", {}, without=("service",))


@pytest.mark.parametrize(
    "text", ["axes: {pace: {slow: {stop: {wait: 90s}}}}", "variants: {slow: {stop: {wait: 90s}}}"]
)
@pytest.mark.parametrize("kind", ["script, name: jobs, stop: {signal: INT}", "huey, sample: nap.json"])
def test_what_a_variant_leaves_out_of_stop_is_as_in_the_service(tmp_path: Path, kind: str, text: str) -> None:
    (tmp_path / "nap.json").write_text("{}")
    command = "huey_consumer app.huey" if kind.startswith("huey") else "work"
    asked = settings(tmp_path, f"service: {{kind: {kind}, command: {command}, {text}}}")

    assert settings_of_study(canonical_json(asked), "s.tuner.db") == asked
    stop = asked.service_in("slow").stop
    assert (stop.signal, stop.wait) == ("INT", 90.0)


@pytest.mark.parametrize("order", [("numa", "python"), ("python", "numa")])
def test_no_order_of_the_axes_hides_the_python_of_a_command(tmp_path: Path, order: tuple[str, str]) -> None:
    axes = {
        "numa": "    numa: {all: {prepend: [numactl, --interleave=all]}}\n",
        "python": "    python: {new: {interpreter: python3.13}}\n",
    }

    made = settings(tmp_path, JOBS + "".join(axes[axis] for axis in order)).service.variants.values()

    wanted = "numactl --interleave=all python3.13 -u w.py {threads}"
    assert [one.command for one in made] == [tuple(wanted.split())]


@pytest.mark.parametrize("key", ["prepend", "interpreter", "stop", "max_extra_threads"])
def test_null_in_a_value_leaves_what_the_service_has(tmp_path: Path, key: str) -> None:
    text = f"service: {{kind: crash-processor, axes: {{it: {{a: {{{key}: null}}, b: {{}}}}}}}}"
    service = settings(tmp_path, text).service

    assert service.of("a") == service.of("b")


OMP = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def typed(config: Path | None, *axes: str, command: str | None = None) -> Settings:
    return settings_of(config, service_options(None, None, command) | axis_options([*axes]))


@pytest.mark.parametrize("omp", ["'1, 2,auto,default'", "[1, 2, auto, default]"])
def test_the_axis_of_numeric_threads_needs_its_values_only(tmp_path: Path, omp: str) -> None:
    asked = settings(tmp_path, JOBS + f"    omp: {omp}\n    nice: {{no: {{}}, yes: {{prepend: nice}}}}\n")

    assert [*asked.service.axes["omp"]] == ["1", "2", "auto", "default"]
    environments = [asked.service_in(f"{value}+yes").environment for value in ("2", "auto", "default")]
    assert environments == [dict.fromkeys(OMP, "2"), dict.fromkeys(OMP, "{cores_per_process}"), {}]
    assert settings_of_study(canonical_json(asked), "s.tuner.db") == asked


def test_an_axis_that_is_typed_is_one_of_the_config_or_of_the_command(tmp_path: Path) -> None:
    config = tmp_path / "s.yaml"
    config.write_text(JOBS + "    nice: {no: {}, yes: {prepend: nice}}\n", encoding="utf-8")

    assert [*typed(config, "omp=1,auto").service.variants] == ["no+1", "no+auto", "yes+1", "yes+auto"]
    known = typed(None, "omp=1,2", command="gunicorn app:app --bind 127.0.0.1:8000")
    assert known.service.record == "gunicorn"
    assert {name: one.environment["OMP_NUM_THREADS"] for name, one in known.service.variants.items()} == {
        "1": "1",
        "2": "2",
    }
    assert [*typed(None, "omp=1,2").service.variants] == ["1", "2"]  # the built-in worker


@pytest.mark.parametrize(
    ("axis", "said"),
    [
        ("omp=1,0", wording("config.omp-of-nothing")),
        ("omp=1,atuo", wording("config.omp-misspelt")),
        ("omp=1,1", wording("config.omp-twice")),
        ("omp=", wording("config.omp-of-no-value")),
        ("omp", wording("config.axis-without-values")),
        ("malloc=glibc", wording("config.axis-not-known")),
    ],
    ids=key_of,
)
def test_what_is_wrong_with_an_axis_that_is_typed_is_reported_of_the_option(axis: str, said: str) -> None:
    with raises(ConfigError, said):
        typed(None, axis)


def test_a_command_that_sets_the_threads_itself_has_no_axis_of_them(tmp_path: Path) -> None:
    with raises(ConfigError, wording("config.omp-set-by-command")):
        typed(None, "omp=1,2", command="env OMP_NUM_THREADS=4 python3 w.py")


def test_what_makes_a_variant_goes_before_the_environment_file(tmp_path: Path) -> None:
    (tmp_path / "app.env").write_text("OMP_NUM_THREADS=8\nOTHER=1\n")
    asked = settings(tmp_path, JOBS + f"    omp: [1, default]\n  environment_file: {tmp_path}/app.env\n")

    spec, _ = service_of(asked, [Layout(1, 1)], StudyName("", ""), tmp_path, lambda _slug, _text: None)
    data = {
        name: spec.of(Layout(2, 1, name)).environment_of(Layout(2, 1, name), 0, 4)
        for name in ("1", "default")
    }

    assert [data[name]["OMP_NUM_THREADS"] for name in data] == ["1", "8"]
    assert [data[name]["OTHER"] for name in data] == ["1", "1"]


@pytest.mark.parametrize(
    ("layout", "cores", "workers", "each"),
    [
        ("1x4", 8, "programs", "8"),
        ("3x1", 8, "programs", "2"),
        ("9x1", 8, "programs", "1"),
        ("2x2", 8, "pools", "2"),
    ],
)
def test_the_cores_of_a_process_are_filled_in_in_a_study_and_in_what_it_hands_out(
    layout: str, cores: int, workers: Workers, each: str
) -> None:
    one = parse_layout(layout)
    spec = ServiceSpec("jobs", ("w",), {"N": "{cores_per_process}"}, workers=workers)
    section = {
        "kind": "script",
        "name": "jobs",
        "command": ["w"],
        "environment": spec.environment,
        "workers": workers,
    }

    assert spec.environment_of(one, 0, cores)["N"] == each
    assert rollout_of(section, one, cores, {}).environment["N"] == each
