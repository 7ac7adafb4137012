"""The C program `tuner-simulate`: the trajectory of its Python twin, and what it says to bad input."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random

import pytest

from tuner.adapters.virtual.simulator import count_all, find_simulator, scenario_line, simulate_all
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.simulation.events import run
from tuner.core.model.simulation.scenario import Scenario, simulate

from ..raising import raises
from ..wording import wording

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tuner" / "core" / "model" / "simulation"
N_SCENARIOS = 80
MOST_QUEUED = 1_000_000  #: items that wait, before the program gives up

pytestmark = pytest.mark.integration

PLAIN = Scenario(
    Layout(2, 3),
    Demands(gil_s=0.02, child_s=0.1, asleep_s=0.1),
    Machine(cores=4),
    n_items=200,
    n_warm_items=20,
)


def any_scenario(random: Random, most_items: int) -> Scenario:
    """One that uses some of everything a scenario may have."""

    def sometimes(value: float) -> float:
        return value if random.random() < 0.6 else 0.0

    cores = random.choice([0.5, 1, 2, 3, 4, 24])
    demands = Demands(
        gil_s=random.choice([0.0005, 0.01, 0.1]) * random.choice([0, 1, 1, 1]) + 1e-6,
        python_s=sometimes(0.1),
        child_s=sometimes(random.uniform(0.1, 3)),
        asleep_s=sometimes(0.5),
        blocked_s=sometimes(0.1),
        spawn_s=sometimes(0.01),
        n_gil_visits=random.choice([1, 2, 3, 6]),
        cv_ratio=random.choice([0, 0.3, 1]),
    )
    machine = Machine(
        cores=cores,
        physical_cores=random.choice([None, cores / 2]),
        foreign_cores=sometimes(0.3 * cores),
        has_gil=random.random() < 0.8,
        switch_interval_s=random.choice([0.005, 0.02, inf]),
        handover_s=random.choice([0, 1e-6, 5e-6]),
    )
    closed = Scenario(
        Layout(random.randint(1, 9), random.randint(1, 9)),
        demands,
        machine,
        seed=random.getrandbits(64),
        n_items=random.randint(20, most_items),
        n_warm_items=random.choice([0, 1, 50]),
        process_cores=sometimes(0.1),
    )
    share = random.choice([None, None, random.uniform(0.2, 1.0), 0.99])
    return closed if share is None else replace(closed, arrival_per_s=share * closed.most_per_s)


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    random = Random("twins")
    return [any_scenario(random, 150) for _ in range(N_SCENARIOS)]


def test_the_program_and_its_twin_agree_to_the_last_bit(scenarios: list[Scenario]) -> None:
    for scenario, counted in zip(scenarios, count_all(scenarios), strict=True):
        assert counted == run(scenario), scenario


def test_the_scenarios_of_the_comparison_use_everything(scenarios: list[Scenario]) -> None:
    counted = count_all(scenarios)

    assert sum(one.n_forced > 0 for one in counted) > 10
    assert sum(one.tasks.gil_waiting_s > 0 for one in counted) > 20
    assert sum(one.tasks.queued_s > 0 for one in counted) > 10
    assert sum(one.tasks.runnable_s > one.tasks.work_s + 1e-9 for one in counted) > 20
    assert sum(one.tasks.busy_s > one.tasks.work_s + 1e-9 for one in counted) > 20
    assert len({one.digest for one in counted}) == N_SCENARIOS


def test_figures_are_those_of_the_twin() -> None:
    assert simulate_all([PLAIN]) == [simulate(PLAIN)]


def test_a_digest_is_the_same_on_every_machine() -> None:
    (counted,) = count_all([PLAIN])

    assert f"{counted.digest:016x}" == "d9cc647d353eecb6"


def test_a_scenario_does_not_depend_on_its_batch() -> None:
    other = replace(PLAIN, layout=Layout(5, 1), seed=9)

    assert count_all([other, PLAIN, PLAIN])[1:] == count_all([PLAIN]) * 2


def test_nothing_to_simulate_gives_nothing() -> None:
    assert simulate_all([]) == []


def test_thousands_of_threads_are_no_problem() -> None:
    many = replace(PLAIN, layout=Layout(1000, 3), machine=Machine(cores=96), n_items=20_000)
    (one,) = simulate_all([many])

    assert one.cpu_cores == pytest.approx(96, rel=0.001)


def ask(text: str | bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    data = text.encode() if isinstance(text, str) else text
    return subprocess.run(
        [find_simulator(), *arguments], input=data, capture_output=True, check=False, timeout=60
    )


GOOD = scenario_line(PLAIN)
BAD_LINES = {
    "": wording("simulate.processes-missing"),
    "hello": wording("simulate.no-field"),
    "hello=1": wording("simulate.no-field"),
    GOOD.replace(" seed=1 ", " "): wording("simulate.seed-missing"),
    GOOD + " seed=1": wording("simulate.field-twice"),
    GOOD.replace("processes=2", "processes=0"): wording("simulate.no-whole-number-from-to"),
    GOOD.replace("processes=2", "processes=-1"): wording("simulate.processes-whole-number"),
    GOOD.replace("processes=2", "processes=2.5"): wording("simulate.processes-whole-number"),
    GOOD.replace("processes=2", "processes= 2"): wording("simulate.processes-whole-number"),
    GOOD.replace("processes=2", "processes=1048576"): wording("simulate.most-threads"),
    GOOD.replace("seed=1", "seed=18446744073709551616"): wording("simulate.seed-whole-number"),
    GOOD.replace("n_items=200", "n_items=19"): wording("simulate.items-whole-number"),
    GOOD.replace("cv=0.5", "cv=1.5"): wording("simulate.cv-number", value="1.5"),
    GOOD.replace("cv=0.5", "cv=nan"): wording("simulate.cv-number", value="nan"),
    GOOD.replace("cv=0.5", "cv="): wording("simulate.cv-number", value=""),
    GOOD.replace("cv=0.5", "cv=0.5x"): wording("simulate.cv-number", value="0.5x"),
    GOOD.replace("arrival_per_s=0.0", "arrival_per_s=1e-320"): wording("simulate.arrivals-number"),
    GOOD.replace("cores=4.0", "cores=0"): wording("simulate.cores-number"),
    GOOD.replace("stages=gil:", "stages=lock:"): wording("simulate.known-stages"),
    GOOD.replace("stages=gil:", "stages=gil:-"): wording("simulate.stages-number"),
    GOOD.replace("stages=", "stages=,"): wording("simulate.stage"),
    GOOD.replace(" speeds=", ", speeds="): wording("simulate.stage"),
    GOOD.replace("speeds=", "speeds=0,"): wording("simulate.speeds-number"),
    GOOD + ",inf": wording("simulate.speeds-number"),
    GOOD.replace("handover_s=5e-06", "handover_s=0.005"): wording("simulate.handover-microseconds"),
    GOOD.replace("speeds=1.0,", "speeds=0.001,"): wording("simulate.handover-microseconds"),
    GOOD + "\0": "null byte",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_line_that_is_no_scenario_is_reported_in_one_line(line: str) -> None:
    done = ask(f"{GOOD}\n{line}\n{GOOD}\n")

    assert done.returncode == 2
    assert done.stderr.decode().startswith("ERROR line 2: ")
    assert BAD_LINES[line] in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
    assert done.stdout.count(b"\n") == 1  # the answer to line 1


def test_arrivals_that_pile_up_are_reported() -> None:
    """A `Scenario` of so many arrivals is refused; the program does not count on that."""
    flood = GOOD.replace("arrival_per_s=0.0", "arrival_per_s=1e9").replace("n_items=200", "n_items=20000")
    done = ask(f"{GOOD}\n{flood}\n")

    assert done.returncode == 2
    assert b"ERROR line 2: 1000000 items wait: arrival_per_s is above what the layout can do" in done.stderr


def test_a_clock_that_cannot_tell_a_turn_is_reported() -> None:
    data = {"cv": 0, "switch_interval_s": 1e-9, "handover_s": 0, "processes": 1, "threads": 2}
    line = " ".join(
        [
            *(word for word in GOOD.split() if word.split("=")[0] not in {*data, "stages"}),
            *(f"{name}={value}" for name, value in data.items()),
            "stages=asleep:1e9,gil:1",
        ]
    )
    done = ask(line)

    assert done.returncode == 2
    assert b"switch_interval_s is below the resolution of the clock after this time" in done.stderr


def test_the_program_gives_up_where_its_twin_does() -> None:
    rare = Demands(gil_s=0.01, child_s=0.01, asleep_s=2e9, n_gil_visits=1, cv_ratio=0)
    machine = Machine(cores=0.1, switch_interval_s=0.001, handover_s=0)
    scenario = Scenario(Layout(1, 100), rare, machine, n_items=400)

    with raises(ValueError, wording("simulate.switch-interval-too-short")) as of_twin:
        simulate(scenario)
    with pytest.raises(ConfigError, match=str(of_twin.value)):
        simulate_all([scenario])


def test_threads_that_only_hold_a_gil_and_wait_are_as_many_runnable_tasks_as_processes() -> None:
    waiting = replace(
        PLAIN, layout=Layout(4, 256), demands=Demands(gil_s=0.02, asleep_s=1.0), machine=Machine(cores=2)
    )
    (one,) = simulate_all([waiting])

    assert one.n_forced_per_s > 0


def test_the_program_explains_itself() -> None:
    helped, version, wrong = ask("", "--help"), ask("", "--version"), ask("", "--fast")

    assert (helped.returncode, helped.stdout.startswith(b"Usage: tuner-simulate")) == (0, True)
    assert (version.returncode, version.stdout.startswith(b"tuner-simulate ")) == (0, True)
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count(b"\n")) == (2, b"", 1)


def test_the_example_of_the_help_is_a_scenario() -> None:
    text = ask("", "--help").stdout.decode()
    example = " ".join(line.strip() for line in text.splitlines() if line.startswith("  "))

    assert ask(f"{example}\n").returncode == 0


def test_output_that_cannot_be_written_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [find_simulator()], input=GOOD.encode(), stdout=full, stderr=subprocess.PIPE, check=False
        )

    assert done.returncode == 2
    assert b"ERROR standard output" in done.stderr


def test_without_the_program_one_line_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "tuner")])

    with raises(ConfigError, wording("simulate.no-simulator")) as caught:
        simulate_all([PLAIN])
    assert caught.value.hint is not None


def test_a_program_that_is_none_is_reported(tmp_path: Path) -> None:
    fake = tmp_path / "tuner-simulate"
    fake.write_text("no program\n")
    fake.chmod(0o755)

    with raises(ConfigError, wording("launch.cannot-be-run")):
        simulate_all([PLAIN], program=str(fake))
    with raises(ConfigError, wording("launch.cannot-be-run")):
        simulate_all([PLAIN], program=str(tmp_path / "nowhere"))


@pytest.fixture(scope="module", params=["gcc", "clang"])
def sanitized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program, built with sanitizers; skipped at home where the compiler has none, fails in CI."""
    program = tmp_path_factory.mktemp("sanitized") / "tuner-simulate"
    flags = ["-std=gnu11", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    compiler = shutil.which(request.param)
    if compiler is None:
        if os.environ.get("CI"):
            pytest.fail(f"{request.param} is not installed, and CI must have it")
        pytest.skip(f"{request.param} is not installed")
    subprocess.run(
        [
            *(compiler, *flags, "-ffp-contract=off", '-DTUNER_SIMULATE_VERSION="0"'),
            *(SOURCES / "simulate.c", SOURCES / "simulate_main.c", "-o", program),
        ],
        check=True,
        timeout=280,
    )
    return str(program)


def test_sanitizers_find_nothing_and_change_nothing(sanitized: str) -> None:
    random = Random("sanitized")
    scenarios = [any_scenario(random, 3000) for _ in range(300)]
    scenarios += [replace(PLAIN, layout=Layout(p, t)) for p in (1, 2, 31, 32, 33) for t in (1, 2, 33)]

    assert count_all(scenarios, program=sanitized) == count_all(scenarios)


def n_events_of(line: str) -> float:
    """About how many events *line* asks for, rather too many; 0 where it is no scenario."""
    try:
        data = dict(word.split("=", 1) for word in line.split())
        stages = [stage.split(":") for stage in data["stages"].split(",")]
        n_threads = int(data["processes"]) * int(data["threads"])
        n_items = int(data["n_items"]) + int(data["n_warm_items"]) + n_threads
        stretch = n_threads / min(float(speed) for speed in data["speeds"].split(","))
        gil_s = n_items * sum(float(mean_s) for kind, mean_s in stages if kind == "gil")
        n_turns = 2 * gil_s * stretch / float(data["switch_interval_s"])
        n_arrivals = MOST_QUEUED if float(data["arrival_per_s"]) else 0
        return n_items * (1 + len(stages)) + n_turns + n_arrivals
    except (ValueError, KeyError, ZeroDivisionError, OverflowError):
        return 0.0


def damaged(random: Random) -> bytes:
    """A good line in which a few things are wrong."""
    line = bytearray(GOOD.encode())
    for _ in range(random.choice([1, 1, 1, 2, 3, 5])):
        at = random.randrange(len(line))
        match random.randrange(4):
            case 0:
                line[at] = random.choice(b"0123456789=,:. -+e\n\0\xffgx")
            case 1:
                del line[at : at + random.randrange(1, 20)]
            case 2:
                line[at:at] = random.choice((b",", b"=", b" ", b"9", b"gil:1,", b"1,", b"e30", b"-"))
            case 3:
                digits = [place for place, sign in enumerate(line) if sign in b"0123456789"]
                at = random.choice(digits)
                line[at : at + 1] = random.choice((b"", b"0", b"7", b"1e9", b"1e-9", b"1e-300", b"99"))
    return bytes(line)


@pytest.mark.full
def test_damaged_lines_do_no_harm(sanitized: str) -> None:
    """Nor does any go on without end: they ask for seconds at most, those that ask for more are left out."""
    random = Random("damaged")
    lines = [
        line for line in (damaged(random) for _ in range(1000)) if n_events_of(line.decode("latin-1")) < 1e7
    ]
    codes = []
    for line in lines:
        done = subprocess.run([sanitized], input=line, capture_output=True, check=False, timeout=100)

        assert done.returncode in (0, 2), done.stderr
        assert (done.returncode == 2) == done.stderr.startswith(b"ERROR "), done.stderr
        assert b"Sanitizer" not in done.stderr
        assert b"runtime error" not in done.stderr
        codes.append(done.returncode)
    assert codes.count(0) > 100
    assert len(lines) > 900
