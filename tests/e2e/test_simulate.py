"""Studies on a simulated box, as they are typed."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.app.plan_builder import plan_record
from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.stores import new_store
from tuner.config.load import Given
from tuner.config.profile import read_profile
from tuner.core.domain.layout import divisors_grid
from tuner.core.model.network import predict

from ..wording import wording
from .typed import Typed

PROFILES = Path(__file__).resolve().parents[2] / "configs" / "profiles"
SOCORRO = PROFILES / "socorro-2014.yaml"
MARK = "Simulated: no service ran, a model of socorro-2014 on 24 cores gave these figures."
FEW = (
    "--layouts",
    "24x1,4x6,1x24",
    "--strategy",
    "all",
    "--repeats",
    "2",
    "--window",
    "2m",
    "--warmup",
    "1m",
)
NAME = "simulated-socorro-2014"


@pytest.fixture(autouse=True, scope="module")
def _wide() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        yield


@pytest.fixture
def tuner(tmp_path: Path) -> Typed:
    return Typed(tmp_path)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulated")
    done = Typed(folder)("grid", "--simulate", SOCORRO, *FEW)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{MARK}\n")
    return folder / f"{NAME}.tuner.db"


def test_everything_that_shows_a_simulated_study_says_so(tuner: Typed, study: Path) -> None:
    assert tuner("rank", study).stdout.startswith(
        wording("simulate.on-a-simulated-box", mark=MARK, name=NAME)
    )
    for fmt in ("markdown", "html", "rst", "jira"):
        shown = tuner("export", study, "--format", fmt).stdout
        assert "no service ran" in shown.split("\n")[0], fmt
    rows = list(csv.DictReader(io.StringIO(tuner("export", study, "--format", "csv").stdout)))
    assert [row["service"] for row in rows] == [NAME] * 3
    assert all(row["note"].startswith(MARK) for row in rows)
    facts = json.loads(tuner("rank", study, "--json").stdout)
    assert facts["simulated"] is True
    assert facts["study"]["provenance"]["simulated"] == "socorro-2014"
    assert facts["study"]["box_cores"] == 24.0
    for command in ("explain", "predict", "calibrate"):
        assert tuner(command, study).stdout.startswith(
            wording("simulate.on-a-simulated-box-so-far", mark=MARK, name=NAME)
        ), command
        assert json.loads(tuner(command, study, "--json").stdout)["simulated"] is True, command


def test_a_runbook_keeps_it_apart_from_the_real_service(tuner: Typed, study: Path) -> None:
    runbook = tuner.folder / "RUNBOOK.md"

    assert tuner("export", study, "--into", runbook).returncode == 0
    assert f"<!-- tuner:ranking:{NAME} begin -->\n\n{MARK}\n" in runbook.read_text(encoding="utf-8")
    assert tuner("export", study, "--into", runbook, "--check").returncode == 0


def test_what_is_reported_meanwhile_has_the_time_of_the_simulation(tuner: Typed) -> None:
    done = tuner("grid", "--simulate", PROFILES / "gil-bound.yaml", "--layouts", "1x8,8x1", *FEW[2:])

    lines = done.stderr.splitlines()
    assert lines[0] == (wording("simulate.model-gives-every-figure"))
    windows = [line for line in lines if " block " in line]
    assert len(windows) == 4
    assert all(line.startswith("simulated 0:") for line in windows)
    assert "left, until" not in done.stderr
    assert wording("rank.is-best", layout="8x1") in done.stdout


def test_cores_are_those_of_the_simulated_box(tuner: Typed) -> None:
    done = tuner("grid", "--simulate", PROFILES / "waiting-bound.yaml", "--cores", "7", "--grid", "small",
                 *FEW[2:], "--json")  # fmt: skip

    facts = json.loads(done.stdout)
    assert (facts["study"]["cores"], facts["study"]["box_cores"]) == (7, 7.0)
    assert facts["study"]["layouts"][:2] == ["1x7", "7x1"]


def test_of_a_config_the_study_section_is_used_and_nothing_else(tuner: Typed) -> None:
    config = tuner.folder / "study.yaml"
    config.write_text(
        "service: {kind: script, name: x, command: /nowhere, user: nobody-of-that-name}\n"
        "hooks: {before_study: /nowhere}\n"
        "study: {layouts: [4x6, 24x1], strategy: all, repeats: 2, window: 1m, warmup: 30s}\n",
        encoding="utf-8",
    )

    done = tuner("grid", config, "--simulate", SOCORRO, "--json")

    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["study"]["service"], facts["study"]["window_s"]) == (NAME, 60.0)
    assert facts["study"]["config"].keys() == {"simulate", "study"}


def _config(tuner: Typed, study: str) -> Path:
    config = tuner.folder / "study.yaml"
    config.write_text(f"study: {study}\n", encoding="utf-8")
    return config


SHORT = "{layouts: [4x6, 24x1], strategy: all, repeats: 2, window: 1m, warmup: 30s, warmup_cap: 2m}"


def test_a_study_continues_with_the_config_that_began_it_and_with_no_other_study_section(
    tuner: Typed,
) -> None:
    resumed = ("grid", "study.yaml", "--simulate", SOCORRO, "--resume", "s.db")
    _config(tuner, SHORT)
    assert tuner("grid", "study.yaml", "--simulate", SOCORRO, "--study", "s.db").returncode == 0

    same = tuner(*resumed)
    _config(tuner, "{window: 60s}")
    less = tuner(*resumed)
    _config(tuner, SHORT.replace("1m", "2m").replace("[4x6, 24x1]", "[4x4]"))
    other = tuner(*resumed)
    _config(tuner, "{layouts: [4x4], window: 10, budget: soon, bogus: 1}")
    wrong = tuner(*resumed)

    assert same.returncode == less.returncode == 0, same.stderr + less.stderr
    assert "study.window" not in same.stderr + less.stderr
    assert other.returncode == 2
    assert other.stderr == (wording("grid.not-what-it-was-begun-with"))
    assert wrong.returncode == 2
    assert "study.yaml:1:33: study.window: " + wording("config.no-unit", text=10) in wrong.stderr
    assert "study.yaml:1:45: study.budget: " in wrong.stderr
    assert "study.yaml:1:51: study.bogus: unknown key" in wrong.stderr


def test_a_study_that_options_began_over_a_config_continues_with_that_config(tuner: Typed) -> None:
    resumed = ("grid", "study.yaml", "--simulate", SOCORRO, "--resume", "s.db")
    _config(tuner, SHORT)
    typed = ("--strategy", "race", "--window", "2m", "--grid", "small", "--cores", "4")
    started = tuner("grid", "study.yaml", "--simulate", SOCORRO, *typed, "--study", "s.db")
    assert started.returncode == 0, started.stderr

    same, again = tuner(*resumed), tuner(*resumed, "--window", "120s")
    _config(tuner, SHORT.replace("warmup: 30s", "warmup: 31s"))
    other = tuner(*resumed)

    assert same.returncode == again.returncode == 0, same.stderr + again.stderr
    assert "in the study" not in same.stderr + again.stderr
    assert other.returncode == 2
    assert (
        wording("grid.begun-with-setting", setting="study.warmup", was='"30s"', given='"31s"') + "\n"
        in other.stderr
    )


def test_pairs_continue_with_the_config_whose_layouts_they_replaced(tuner: Typed) -> None:
    config = _config(tuner, "{layouts: [4x6, 24x1], within: 3%, window: 1m, warmup: 30s}")
    asked = ("aa", config, "--simulate", SOCORRO)
    started = tuner(*asked, "--layout", "4x6", "--repeats", "2", "--study", "a.db")

    same = tuner(*asked, "--resume", "a.db")
    _config(tuner, "{window: 2m}")
    other = tuner(*asked, "--resume", "a.db")

    assert same.returncode == started.returncode, same.stderr
    assert "in the study" not in same.stderr
    assert other.returncode == 2
    assert wording("grid.setting-changed", setting="study.window", was='"1m"', given='"2m"') in other.stderr


def test_a_check_continues_with_the_config_whose_window_an_option_of_its_study_replaced(tuner: Typed) -> None:
    config = _config(tuner, SHORT)
    grid = tuner("grid", config, "--simulate", SOCORRO, "--window", "2m", "--study", "s.db")
    assert grid.returncode == 0, grid.stderr
    started = tuner("check", "s.db", "--simulate", SOCORRO, "--to", "c.db")
    resumed = ("check", "s.db", config, "--simulate", SOCORRO, "--resume", "c.db")

    same = tuner(*resumed)
    _config(tuner, SHORT.replace("warmup: 30s", "warmup: 31s"))
    other = tuner(*resumed)

    assert same.returncode == started.returncode, same.stderr
    assert other.returncode == 2
    assert (
        wording("grid.begun-with-setting", setting="study.warmup", was='"30s"', given='"31s"') + "\n"
        in other.stderr
    )


def test_where_a_file_does_not_tell_what_was_typed_a_config_that_differs_is_only_reported(
    tuner: Typed,
) -> None:
    """As those of an older tuner: an option may have taken the place of what the config says."""
    _config(tuner, SHORT)
    resumed = ("grid", "study.yaml", "--simulate", SOCORRO, "--resume", "old.db")
    typed = {("study", "seed"): Given("--seed", "2")}
    settings = settings_of(tuner.folder / "study.yaml", typed, without=("service",))
    with new_store(tuner.folder / "old.db", plan_record(settings, profile=read_profile(SOCORRO))):
        pass

    _config(tuner, SHORT.replace("1m", "2m"))
    result = tuner(*resumed)
    _config(tuner, SHORT.replace("cap: 2m", "cap: 3m"))
    refused = tuner(*resumed)

    assert result.returncode == 0, result.stderr
    assert wording("grid.setting-of-config-and-study") in result.stderr
    assert refused.returncode == 2
    assert (
        wording("grid.begun-with-setting", setting="study.warmup_cap", was='"2m"', given='"3m"') + "\n"
        in refused.stderr
    )


@pytest.mark.parametrize("typed", ["[", "[]", "[" * 100_000])
def test_what_a_strangers_file_says_was_typed_is_reported_where_it_is_nothing(
    tuner: Typed, typed: str
) -> None:
    _config(tuner, SHORT)
    settings = settings_of(tuner.folder / "study.yaml", {}, without=("service",))
    asked = plan_record(settings, profile=read_profile(SOCORRO))
    asked = replace(asked, provenance=replace(asked.provenance, study_typed=typed))
    with new_store(tuner.folder / "strange.db", asked):
        pass

    done = tuner("grid", "study.yaml", "--simulate", SOCORRO, "--resume", "strange.db")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(wording("grid.begun-with-unknown"))
    assert done.stderr.endswith(wording("grid.go-on-without-config"))


def test_a_simulated_study_continues_with_the_profile_that_it_keeps(tuner: Typed, study: Path) -> None:
    kept = tuner("grid", "--resume", study)
    assert kept.returncode == 0, kept.stderr
    assert kept.stdout == tuner("rank", study).stdout
    other = tuner("grid", "--resume", study, "--simulate", PROFILES / "gil-bound.yaml")
    assert other.returncode == 2
    assert wording("grid.begun-with-another-profile", study=study) in other.stderr
    assert (
        wording("grid.setting-changed", setting="demands.gil", was='"586ms"', given='"180ms"') in other.stderr
    )
    same = tuner("grid", "--resume", study, "--simulate", SOCORRO)
    assert same.returncode == 0, same.stderr
    assert same.stdout == tuner("rank", study).stdout


def test_a_real_study_is_never_gone_on_with_by_simulating(tuner: Typed) -> None:
    real = Path(__file__).resolve().parents[1] / "golden" / "study_version_1.db"
    before = real.read_bytes()

    for command in (("grid", "--resume", real), ("check", real)):
        done = tuner(*command, "--simulate", SOCORRO)

        assert done.returncode == 2
        assert f"{real} was measured on " in done.stderr
        assert wording("grid.simulate-cannot-go-on") in done.stderr
    assert real.read_bytes() == before


def test_a_study_cut_off_by_ctrl_c_continues_to_the_same_end(tuner: Typed) -> None:
    asked = ("--simulate", SOCORRO, "--layouts", "24x1,4x6", *FEW[2:4], "--repeats", "4")
    whole = tuner("grid", *asked, "--study", "whole.db")
    assert whole.returncode == 0, whole.stderr

    cut = tuner("grid", *asked, "--study", "cut.db", terminal=CtrlC(" block 2: "))

    assert cut.returncode == 130, cut.stderr
    assert cut.stdout.endswith("\n    tuner grid --resume cut.db\n")
    assert "Go on with" not in cut.stderr  # it is the next step
    assert 0 < sum(n for _, _, n in figures(tuner, "cut.db")) < 8
    resumed = tuner("grid", "--resume", "cut.db", "--simulate", SOCORRO)
    assert resumed.returncode == 0, resumed.stderr
    assert figures(tuner, "cut.db") == figures(tuner, "whole.db")


class CtrlC(io.StringIO):
    """A terminal at which somebody presses Ctrl-C once *text* is seen."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def write(self, text: str) -> int:
        n = super().write(text)
        if self._text and self._text in self.getvalue():
            self._text = ""
            signal.raise_signal(signal.SIGINT)
        return n


def figures(tuner: Typed, file: str) -> list[tuple[str, float, int]]:
    rows = json.loads(tuner("rank", file, "--json").stdout)["layouts"]
    return [(row["layout"], row["throughput_per_10min"]["mean"], row["n_windows"]) for row in rows]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--simulate", "no.yaml"), "cannot read the profile no.yaml: No such file or directory"),
        (("--simulate", "."), "cannot read the profile .: Is a directory"),
        (("--simulate", SOCORRO, "--spool", "/tmp/x"), "--spool is for a service that runs"),
        (
            ("--simulate", SOCORRO, "--layouts", "4x6@gevent"),
            "cannot simulate 4x6@gevent: a profile has no variants",
        ),
        (("--simulate", SOCORRO, "--study", "/proc/x.db"), "cannot create /proc/x.db"),
        ((SOCORRO,), f"This is a profile: tuner grid --simulate {SOCORRO} plays it."),
    ],
)
def test_what_cannot_be_simulated_is_reported_in_a_line(
    tuner: Typed, arguments: tuple[str | Path, ...], said: str
) -> None:
    done = tuner("grid", *arguments)

    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""
    assert list(tuner.folder.iterdir()) == []


def test_a_simulated_answer_is_checked_on_a_simulated_box(tuner: Typed) -> None:
    """24x1 gives twice what 1x24 gives; with 5.6 times the CPU per item it gives less than half of it."""
    now, slower = SOCORRO.read_text(encoding="utf-8"), tuner.folder / "slower.yaml"
    assert now.count("cpu_per_process: 0%") == 1
    slower.write_text(now.replace("cpu_per_process: 0%", "cpu_per_process: 20%"), encoding="utf-8")
    study = f"{NAME}.tuner.db"
    assert tuner("grid", "--simulate", SOCORRO, "--layouts", "24x1,1x24", *FEW[2:]).returncode == 0

    assert tuner("check", study, "--budget", "9h").returncode == 0
    for profile, code, state in ((SOCORRO, 0, "right"), (slower, 4, "stale")):
        asked = ("--current", "1x24", "--budget", "9h", "--to", f"{state}.db")
        done = tuner("check", study, *asked, "--simulate", profile, "--json")

        assert done.returncode == code, done.stderr
        facts = json.loads(done.stdout)
        assert (facts["simulated"], facts["winner"], facts["state"]) == (True, "24x1", state)


def test_a_study_whose_name_is_not_utf_8_is_checked_and_compared(
    tuner: Typed, study: Path, tmp_path: Path
) -> None:
    odd = os.fsdecode(b"caf\xe9.tuner.db")
    shutil.copyfile(study, tmp_path / odd)
    other = tuner("grid", "--simulate", SOCORRO, *FEW, "--seed", "2", "--study", "other.tuner.db")
    assert other.returncode == 0

    checked = tuner("check", odd, "--simulate", SOCORRO, "--window", "2m", "--budget", "1h")
    compared = tuner("compare", odd, "other.tuner.db")

    assert checked.returncode in (0, 4, 5), checked.stderr  # whatever it says of these two
    assert (tmp_path / os.fsdecode(b"caf\xe9.check-1.tuner.db")).exists()
    assert compared.returncode == 0, compared.stderr
    assert "Before, caf\ufffd.tuner.db: " in compared.stdout
    (checked.stdout + compared.stdout).encode()  # a terminal can show both


def test_aa_says_that_it_was_simulated(tuner: Typed) -> None:
    again = ("--simulate", PROFILES / "gil-bound.yaml")
    mark = "Simulated: no service ran, a model of gil-bound on 8 cores gave these figures.\n\n"

    pairs = tuner("aa", *again, "--layout", "8x1", "--repeats", "2")
    assert pairs.returncode == 0, pairs.stderr
    assert pairs.stdout.startswith(wording("check.against-itself", mark=mark))
    assert json.loads(tuner("aa", "simulated-gil-bound.aa.tuner.db", "--json").stdout)["simulated"] is True
    there = tuner("aa", "simulated-gil-bound.aa.tuner.db", *again)
    assert there.returncode == 2
    assert wording("simulate.nothing-is-run") in there.stderr


@pytest.mark.full
def test_a_simulated_pilot_tells_what_a_study_takes(tuner: Typed) -> None:
    profile = PROFILES / "gil-bound.yaml"

    done = tuner("plan", "--simulate", profile, "--pilot", "30m", "--layouts", "1x8,2x4,8x1")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(wording("simulate.no-service-ran-model", profile="gil-bound", cores=8))
    assert "simulated-gil-bound, 3 layouts" in done.stdout


@pytest.mark.full
def test_a_race_over_the_whole_grid_finds_a_layout_that_is_truly_near_the_best(tuner: Typed) -> None:
    done = tuner("grid", "--cores", "24", "--simulate", SOCORRO, "--json")

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)["answer"]
    profile, layouts = read_profile(SOCORRO), divisors_grid(24)
    truth = predict(profile.demands, profile.machine, layouts).throughput_per_s
    of_layout = {str(layout): float(one) for layout, one in zip(layouts, truth, strict=True)}
    assert len(of_layout) == answer["n_layouts"] == 22
    assert answer["reached"]
    assert of_layout[answer["layout"]] > 0.98 * max(of_layout.values())
