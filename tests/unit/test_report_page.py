from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from tuner.app import model, rollouts
from tuner.bootstrap import configs
from tuner.cli import run
from tuner.core.domain.layout import Layout
from tuner.core.domain.live import Live
from tuner.core.domain.safety_limits import OPTIONS, parse_limits
from tuner.core.domain.window import VoidReason
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.ranking import rank
from tuner.core.windows.other_processes import Others
from tuner.reports.documents import render_document
from tuner.reports.page import render_page
from tuner.reports.page.document import GENERATOR, HEAD_BYTES
from tuner.reports.page.method import repeatable
from tuner.reports.ranking.first_screen import Starts, among_ties, gains
from tuner.reports.runbook.document import runbook_page

from ..overviews import HOSTILE, RECORDED, hostile, large, recorded, recorded_overview
from ..wording import start_of, wording
from . import runbook_study

FULL_BYTES, SMALL_BYTES = 1_500_000, 300_000
SECTIONS = ["answer", "ranking", "heat-map", "trade", "windows", "bound", "foretold", "method"]
RACE = "crash-processor-2-cores-busy.tuner.db"
CHEAP = "crash-processor-2-cores-busy.pilot.tuner.db"  #: of those with 1x1, the fastest to read


class Page(HTMLParser):
    """What a browser would make of a page: its elements, ids and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.styled = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "action", "srcset", "xlink:href"):
                self.addresses.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)
            self.styled += name == "style"


@pytest.fixture(scope="module")
def race() -> Overview:
    return recorded_overview(RACE)


@pytest.fixture(scope="module")
def race_page(race: Overview) -> str:
    return render_page(race)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", RECORDED)
def test_every_study_has_all_sections_in_their_order_and_links_to_nothing_else(
    name: str, small: bool
) -> None:
    text = render_page(recorded_overview(name), small=small)
    page = Page(text)

    assert re.findall(r'<section id="([a-z-]+)"', text) == SECTIONS
    assert [one for one in page.addresses if not one.startswith("#")] == []
    assert {one[1:] for one in page.addresses} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert (page.handlers, page.styled) == ([], 0)
    assert page.tags.count("script") == (0 if small else 1)
    assert len(text.encode()) < (SMALL_BYTES if small else FULL_BYTES)


def test_the_same_study_gives_the_same_bytes(race: Overview, race_page: str) -> None:
    assert render_page(race) == race_page


def test_the_policy_allows_the_style_and_the_script_of_the_page_and_nothing_else(race_page: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', race_page)[1]  # type: ignore[index]

    assert policy.startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize("small", [False, True])
def test_names_that_mean_harm_are_shown_as_text(race: Overview, small: bool) -> None:
    harmless = render_page(race, "no fit", small=small)
    text = render_page(hostile(race), " ".join(HOSTILE), small=small)
    page = Page(text)

    assert set(page.tags) == set(Page(harmless).tags)
    assert page.tags.count("script") == (0 if small else 1)
    assert page.handlers == []
    assert [one for one in page.addresses if not one.startswith("#")] == []
    assert "{{ 7 * 7 }}" in text
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e\ud800]", text) is None
    assert "a\\u202egnp.exe\\u200b" in text
    text.encode("utf-8")


@pytest.mark.parametrize("small", [False, True])
def test_a_large_study_is_thinned_and_says_so(small: bool) -> None:
    text = render_page(large(), small=small)

    assert len(text.encode()) < (SMALL_BYTES if small else FULL_BYTES)
    assert wording("report.each-mark-stands-windows", value=1000 if small else 250) in text
    assert "One window in" in text
    assert wording("report.more-layouts-are-in-the-table") in text
    assert (wording("report.more-rows-left-out") in text) == small


def test_a_study_without_a_window_says_so_in_every_section(race: Overview) -> None:
    nothing = replace(
        race,
        ranking=rank(race.study, []),
        windows=[],
        launches=[],
        explanation="No window of this file counts.",
        rules=(),
    )

    text = render_page(nothing)

    assert re.findall(r'<section id="([a-z-]+)"', text) == SECTIONS
    assert wording("report.no-layout-measured-yet") in text
    assert wording("report.nothing-launched-yet") in text


def test_a_study_whose_windows_are_all_void_says_so_and_names_each_fault_once(race: Overview) -> None:
    reason = VoidReason("worker-died", "process 1 of 4 (pid 7) ended: exit status 1")
    windows = [replace(one, void=(reason,)) for one in race.windows]
    ended = {one.launch_id: f"{one.layout} in window 1: worker-died: {reason.detail}" for one in windows}
    launches = [
        (number, replace(launch, error=ended.get(number, "braked"))) for number, launch in race.launches
    ]

    text = render_page(replace(race, ranking=rank(race.study, windows), windows=windows, launches=launches))

    n = sum(one.block >= 0 for one in windows)
    assert wording("report.all-windows-void-at-all", n=n) in text
    rows = re.findall(
        r"<tr><td>.*?</td><td>.*?</td><td class=\"n\">.*?</td><td>(.*?)</td><td>(.*?)</td></tr>", text
    )
    assert (
        rows.count(("invalid window, launch error", f"worker-died: {reason.detail}"))
        >= min(40, len(ended)) - 1
    )
    assert not [what for what, why in rows if what == "launch error" and "worker-died" in why]


def test_one_layout_is_named_the_fastest_and_another_reference_is_explained(race: Overview) -> None:
    best = next(row.layout for row in race.ranking.rows if row.rank == 1)
    other = next(row.layout for row in race.ranking.rows if row.layout != best)
    fronts = tuple(replace(front, reference=other) for front in race.ranking.fronts)

    same = render_page(
        replace(
            race,
            ranking=replace(
                race.ranking, fronts=tuple(replace(one, reference=best) for one in race.ranking.fronts)
            ),
        )
    )
    text = render_page(replace(race, ranking=replace(race.ranking, fronts=fronts)))

    assert f"measured against {best}, the fastest" in same
    assert wording("rank.highest-mean-where") not in same
    assert "the fastest (" not in text
    assert wording("rank.measured-against-whose-mean", other=other) in text
    assert wording("rank.alone-is-no-answer", best=best) in text


def test_the_load_is_the_settled_one_everywhere_and_is_explained(race_page: str) -> None:
    assert "<dt>load average</dt>" in race_page
    assert wording("rank.load-long-run") in race_page
    assert ">settled load (tasks)</text>" in race_page
    assert wording("rank.settled-load-what-load") in race_page
    assert ">settled load</th>" in race_page


def test_the_load_of_a_study_in_slices_is_explained_without_load_of_the_previous_layout() -> None:
    alone = unescape(render_page(runbook_study.overview()))
    in_slices = unescape(render_page(runbook_study.overview(runbook_study.study(n_resident=4))))

    assert wording("rank.load-long-run") in alone
    assert wording("rank.load-in-slices") in in_slices
    assert wording("rank.load-long-run") not in in_slices


def test_limits_apply_to_the_settled_load_that_is_shown_unless_it_is_adjusted() -> None:
    plain = unescape(render_page(runbook_study.overview(costs=())))
    compared = unescape(render_page(runbook_study.overview(costs=("load",))))

    assert wording("rank.limits-apply-to-it") in plain
    assert wording("rank.is-adjusted") not in plain
    assert wording("rank.is-adjusted") in compared


def told_to_do(page: Overview | str) -> str:
    """What the page tells to do, as its reader sees it."""
    text = page if isinstance(page, str) else render_page(page)
    answer = text[text.index('<section id="answer"') : text.index('<section id="ranking"')]
    _, _, step = answer.partition("<h3>Next step</h3>\n")
    return unescape(re.sub(r"<[^>]+>", "", step))


def test_the_page_says_what_to_do_with_the_answer() -> None:
    asked = runbook_study.overview(max_load="30")
    result = told_to_do(asked)

    assert result.startswith("4x6@gthread can be used now.")
    assert "tuner export gunicorn.tuner.db --into RUNBOOK.md --current 1x24@gthread --max-load 30\n" in result
    assert wording("rank.least-memory") in unescape(render_page(asked))
    hidden = told_to_do(replace(asked, name="-$(x).tuner.db"))
    assert "tuner export './-$(x).tuner.db' --into" in hidden


@pytest.mark.parametrize("unknown_bytes", [None, 5e8])
def test_nothing_is_said_of_memory_where_that_of_a_layout_as_good_is_not_known(
    unknown_bytes: float | None,
) -> None:
    """It may need less, or not: neither is claimed."""
    ranking = runbook_study.overview(current=None).ranking
    first, second = ranking.rows[:2]
    rows = (replace(first, rank=1, pss_bytes=2e8), replace(second, rank=1, pss_bytes=unknown_bytes))

    result = among_ties(rows[0], replace(ranking, rows=rows), 0.02)

    least = wording("rank.least-memory").replace("248 MB", "200 MB")
    assert result == ([] if unknown_bytes is None else [least])


def test_the_commands_of_the_method_name_the_file_as_a_shell_reads_it(race: Overview) -> None:
    text = unescape(render_page(replace(race, name="-my $(x).tuner.db")))

    name = "'./-my $(x).tuner.db'"
    assert f">tuner rank {name}\ntuner explain {name}</pre>" in text


@pytest.mark.parametrize("p95", ["210ms", "0.01ms"])
def test_limits_of_the_page_are_those_of_the_command_it_tells(p95: str) -> None:
    limits = parse_limits({"load": "30.5", "memory_bytes": "954MiB", "p95_s": p95})
    seen = runbook_study.overview(current=None)

    result = told_to_do(replace(seen, ranking=replace(seen.ranking, limits=limits)))

    words = result[result.index("RUNBOOK.md") :].splitlines()[0].split()[1:]
    texts = dict(zip(words[::2], words[1::2], strict=True))
    assert parse_limits({name: texts[option] for name, option in OPTIONS.items()}) == limits


@pytest.mark.parametrize(
    ("current", "text"),
    [
        ("4x6@gthread", ""),
        ("6x4@gthread", " and tied with the best"),
    ],
)
def test_the_page_says_that_nothing_is_to_be_done_where_the_best_is_in_use(current: str, text: str) -> None:
    step = told_to_do(runbook_study.overview(current=current))

    assert step.startswith(f"{current} is in use{text}: nothing has to change.")
    assert "tuner check gunicorn.tuner.db CONFIG\n" in step


def test_the_page_of_a_race_without_an_answer_says_how_to_continue(race: Overview, race_page: str) -> None:
    assert race.ranking.claim is not None
    assert "tuner doctor\n" in told_to_do(race_page)  # it was measured on a busy host
    result = told_to_do(replace(race, ranking=replace(race.ranking, others=None)))

    assert f"tuner grid --resume {RACE}\n" in result
    assert "<dt>leads so far</dt>" in race_page
    assert f"tuner watch {RACE}\n" in told_to_do(replace(race, is_held=True))


def first_screen(page: Overview | str, starts: Starts | None = None) -> list[str]:
    """The lines above the figures: what to run, how sure, what it gains, what to do."""
    text = page if isinstance(page, str) else render_page(page, starts=starts)
    answer = text[text.index('<section id="answer"') :].partition("<dl")[0]
    return [line for line in unescape(re.sub(r"<[^>]+>", "", answer)).splitlines() if line.strip()]


def test_the_first_screen_says_what_to_run_how_sure_that_is_what_it_gains_and_what_to_do() -> None:
    seen = runbook_study.overview()
    lines = first_screen(seen, rollouts.starts_of(seen))

    assert lines[1:3] == [wording("report.run-this"), wording("report.start-it")]
    assert "--workers=4 --threads=6 --worker-class=gthread' gunicorn app:app" in lines[3]
    headings = ["How sure is that?", "What does it gain?", "Next step"]
    assert [line for line in lines if line in headings] == headings
    assert wording("report.measured-best-but") in lines[lines.index(headings[0]) + 1]
    assert wording("report.times-the-items") in start_of(lines[lines.index(headings[1]) + 1])
    assert lines[-1].startswith("tuner export gunicorn.tuner.db --into RUNBOOK.md")


@pytest.mark.parametrize(
    ("current", "kept"), [("4x6@gthread", "4 processes"), ("6x4@gthread", "6 processes")]
)
def test_a_layout_in_use_that_is_as_good_is_kept_and_no_command_starts_another(
    current: str, kept: str
) -> None:
    seen = runbook_study.overview(current=current)
    lines = first_screen(seen, rollouts.starts_of(seen))

    assert lines[1].startswith(f"Keep {kept} x ")
    assert not any("GUNICORN_CMD_ARGS" in line for line in lines)


def test_without_a_layout_in_use_the_gain_is_that_over_the_smallest() -> None:
    lines = first_screen(runbook_study.overview(current=None))

    assert any(wording("report.times-the-smallest") in line for line in lines)
    assert any("--current LAYOUT" in line for line in lines)


def test_a_gain_whose_interval_holds_one_is_not_significant(race: Overview) -> None:
    certain = gains(runbook_study.overview(current=None).ranking)

    assert gains(race.ranking)[1:] == ["The gain is not significant."]
    assert len(certain) == 1


def test_a_gain_in_items_per_cpu_second_says_so() -> None:
    ranking = replace(runbook_study.overview().ranking, objective="throughput-per-cpu")

    assert " as many items per CPU second as 1x24@gthread" in gains(ranking)[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"provenance": replace(runbook_study.PROVENANCE, is_quick=True)}, "Do not act on this yet: "),
        ({"provenance": replace(runbook_study.PROVENANCE, simulated="socorro")}, "In the model, "),
        ({"strategy": "aa"}, "No recommendation: "),
        ({"strategy": "check"}, "No recommendation: "),
    ],
)
def test_what_nobody_should_act_on_is_no_recommendation(changes: dict[str, object], said: str) -> None:
    seen = runbook_study.overview(runbook_study.study(**changes))
    lines = first_screen(seen, rollouts.starts_of(seen))

    assert lines[1].startswith(said)
    assert not any("GUNICORN_CMD_ARGS" in line for line in lines)


def test_an_answer_in_slices_beside_other_processes_is_for_a_host_as_busy() -> None:
    seen = runbook_study.overview(current=None)
    best = seen.ranking.best
    assert best is not None
    others = Others(6.0, {best.layout: 6.0}, {best.layout: 0.25}, 24.0, 0.24, 0.02, in_turns=True)
    seen = replace(
        seen, study=replace(seen.study, n_resident=4), ranking=replace(seen.ranking, others=others)
    )
    lines = first_screen(seen, rollouts.starts_of(seen))
    runbook = render_document(runbook_page(seen, rollouts.starts_of(seen)), "markdown")

    assert lines[1] == wording("report.run-as-busy")
    assert told_to_do(seen).startswith(wording("report.usable-as-busy"))
    for printed in (unescape(render_page(seen)), runbook):
        assert wording("rank.holds-as-busy") in printed
        assert "Do not act" not in printed
        assert "can be used now" not in printed
        assert "not evidence" not in printed.lower()


def test_a_study_under_way_recommends_nothing_yet(race: Overview) -> None:
    grid = first_screen(replace(runbook_study.overview(), is_held=True))

    assert grid[1] == first_screen(race)[1].replace(str(race.ranking.best.layout), "4x6@gthread")  # type: ignore[union-attr]
    assert wording("report.no-answer-yet") in grid[1]


def test_the_exact_claim_is_a_click_away(race_page: str) -> None:
    answer = race_page[race_page.index('<section id="answer"') : race_page.index('<section id="ranking"')]
    folded = answer[answer.index("<details>") :]

    assert "The exact claim" in folded
    assert "No answer yet: " in folded


def test_each_window_has_the_cpu_time_of_its_fixed_work_if_that_was_measured(
    race: Overview, race_page: str
) -> None:
    windows = [replace(one, fixed_work_cpu_s=0.00431 * one.length_s) for one in race.windows]
    measured = render_page(replace(race, windows=windows))

    assert ("fixed work" in race_page, "fixed work" in measured) == (False, True)
    assert measured.count("4.31 ms") == len(windows)


def test_headings_are_in_order(race_page: str) -> None:
    levels = [int(level) for level in re.findall(r"<h([1-6])", race_page)]

    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_page_says_what_to_do_where_nothing_can_be_recommended() -> None:
    result = told_to_do(runbook_study.overview(max_load="1"))

    assert result.startswith("No layout is shown to keep the limits.")
    assert "tuner rank gunicorn.tuner.db --max-load 10.1\n" in result


def test_nobody_is_reported_to_act_on_a_first_look_and_the_page_warns() -> None:
    record = runbook_study.study(provenance=replace(runbook_study.PROVENANCE, is_quick=True))
    seen = runbook_study.overview(record)

    assert "tuner grid CONFIG --like gunicorn.tuner.db\n" in told_to_do(seen)
    assert wording("rank.first-look-in-html") in render_page(seen)


def test_remarks_on_settling_stand_with_the_windows_and_are_counted_in_the_answer(race: Overview) -> None:
    remarks = ("4x6: 1 of 9 launches never settled.", "Launches lose 3 %.")
    text = render_page(replace(race, ranking=replace(race.ranking, settling=remarks)))

    answer, windows = text.index('<section id="ranking"'), text.index('<section id="windows"')
    assert wording("report.remarks-how-launches-settled") in text[:answer]
    assert all(text.count(remark) == 1 and text.index(remark) > windows for remark in remarks)


def test_a_page_of_a_running_study_begins_with_what_runs_and_asks_its_server_alone(
    race: Overview, race_page: str
) -> None:
    live = Live(
        at_wall_s=1_790_000_000.0, phase="window", layout=Layout(2, 2), block=1, elapsed_s=31, window_s=60,
        items_per_s=40.0, load1=1.9, n_active=2, n_taken=7, n_planned=20, remaining_s=4e3,
        warnings=(("braked", "<b>"),),
    )  # fmt: skip

    text = render_page(replace(race, live=live), live=True)

    assert re.findall(r'<section id="([a-z-]+)"', text) == ["now", *SECTIONS]
    assert "connect-src &#39;self&#39;" in text
    assert "braked: &lt;b&gt;" in text
    assert "connect-src" not in race_page


@pytest.mark.parametrize("name", RECORDED)
def test_the_config_on_the_page_asks_for_the_same_layouts(name: str, tmp_path: Path) -> None:
    study = recorded_overview(name).study
    config = repeatable(study)
    assert config is not None
    (tmp_path / "sample.json").touch()  # of the queue that one of them is fed with
    (tmp_path / "study.yaml").write_text(config, encoding="utf-8")

    settings = configs.settings_of(tmp_path / "study.yaml", {})

    assert settings.study.layouts == study.layouts
    assert (settings.study.cores, settings.study.seed) == (study.cores, study.seed)
    assert settings.study.window == study.window_s


def test_report_writes_beside_the_study_and_replaces_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recorded(CHEAP, tmp_path)

    assert [run(["report", str(file), "--current", "1x1"]) for _ in range(2)] == [0, 0]

    page = tmp_path / CHEAP.replace(".tuner.db", ".html")
    assert GENERATOR.encode() in page.read_bytes()[:HEAD_BYTES]
    assert "1x1 (now)" in page.read_text(encoding="utf-8")
    assert f"{page} is written" in capsys.readouterr().err


def test_a_dash_prints_the_page_that_a_file_would_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recorded(CHEAP, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(["report", str(file), "-o", "page.html"]) == 0
    capsys.readouterr()

    assert run(["report", str(file), "-o", "-"]) == 0
    assert capsys.readouterr() == ((tmp_path / "page.html").read_text(encoding="utf-8"), "")
    assert run(["report", str(file), "-o", "-", "--force"]) == 2
    assert not (tmp_path / "-").exists()


def test_report_does_not_replace_what_it_did_not_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recorded(CHEAP, tmp_path)
    mine = tmp_path / "mine.html"
    mine.write_text("<p>mine</p>")

    assert run(["report", str(file), "-o", str(mine)]) == 2

    assert capsys.readouterr().err.splitlines() == [
        wording("report.not-written-by-report", mine=mine),
        wording("report.name-another-file"),
    ]
    assert mine.read_text() == "<p>mine</p>"
    for force in ([], ["--force"]):
        assert run(["report", str(file), "-o", str(file), *force]) == 2
        assert run(["compare", str(file), str(file), "-o", str(file), *force]) == 2
    assert run(["rank", str(file)]) == 0
    assert run(["report", str(file), "-o", str(mine), "--small", "--force"]) == 0
    assert "<script" not in mine.read_text(encoding="utf-8")


def test_a_report_is_not_written_into_a_pipe(tmp_path: Path) -> None:
    file, pipe = recorded(CHEAP, tmp_path), tmp_path / "pipe"
    os.mkfifo(pipe)

    assert run(["report", str(file), "-o", str(pipe), "--force"]) == 2


def test_a_report_into_a_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(CHEAP, tmp_path)

    assert run(["report", str(file), "-o", str(tmp_path)]) == 2
    assert run(["report", str(file), "-o", str(tmp_path / "none" / "x.html")]) == 2

    first, second = (line for line in capsys.readouterr().err.splitlines() if line.startswith("Error: "))
    assert wording("report.regular-file") in first
    assert wording("launch.no-such-file-or-directory") in second


def test_a_study_whose_windows_are_all_void_names_its_file_and_no_folder(tmp_path: Path) -> None:
    file = recorded(RACE, tmp_path)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("INSERT OR IGNORE INTO void_reason SELECT id, 0, 'disturbed', 'others' FROM window")

    _, why = model.predict(file)

    assert isinstance(why, str)
    assert RACE in why
    assert str(tmp_path) not in why
