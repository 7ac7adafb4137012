from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tuner.app.rollouts import in_production
from tuner.cli import run
from tuner.core.domain.layout import parse_layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.strategy import Answer, Claim
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.race_result import by_claim
from tuner.core.ranking.ranked import RankedLayout
from tuner.core.ranking.ranking import rank
from tuner.core.stats.interval import Estimate
from tuner.reports.documents import PAGE_FORMATS, Bullets, Code, Heading, Note, Paragraph, render_document
from tuner.reports.documents.blocks import Block
from tuner.reports.ranking.first_screen import Starts, layout_words
from tuner.reports.runbook.document import proposed_layout, runbook_page
from tuner.reports.text.formats import Table

from ..printed import printed
from ..wording import end_of, start_of, wording
from .runbook_study import CONFIG, ITEMS, PROVENANCE, overview, study

ROOT = Path(__file__).resolve().parents[2]


def page_of(seen: Overview, **options: float) -> list[Block]:
    best, current = proposed_layout(seen.ranking), seen.ranking.current
    starts = Starts(
        None if best is None else in_production(seen.study, best),
        None if current is None else in_production(seen.study, current),
    )
    return runbook_page(seen, starts, **options)


def text_of(page: list[Block]) -> str:
    """All that a reader reads, a line for each paragraph, item and row."""
    lines: list[str] = []
    for block in page:
        match block:
            case Heading(text) | Paragraph(text) | Note(text):
                lines.append(text)
            case Bullets(items):
                lines += items
            case Code(code):
                lines += [f"$ {line}" for line in code]
            case Table(headers, rows):
                lines += [" | ".join(row) for row in (headers, *rows)]
    return "\n".join(lines) + "\n"


def section(page: list[Block], title: str) -> str:
    begin = page.index(Heading(title))
    ends = [place for place, block in enumerate(page) if place > begin and isinstance(block, Heading)]
    return text_of(page[begin + 1 : min(ends, default=len(page))])


@pytest.mark.parametrize("fmt", [name for name in PAGE_FORMATS if name not in ("github", "pipe")])
def test_the_page_looks_as_it_should(fmt: str) -> None:
    rendered = render_document(page_of(overview(max_load="30", costs=("memory",))), fmt)

    assert rendered == printed("export", f"page.{fmt}")


def test_the_page_of_the_docs_shows_excerpts_of_what_the_command_above_it_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    before, _, rest = text.partition("\n```markdown\n")
    command = before.rstrip().splitlines()[-1].split()

    assert run([str(ROOT / word) if word.startswith("bench/") else word for word in command[1:]]) == 0
    printed = capsys.readouterr().out
    for excerpt in rest.partition("```\n")[0].split("\n...\n"):
        assert excerpt.strip("\n") in printed
        printed = printed.partition(excerpt.strip("\n"))[2]  # the excerpts stand in the order of the page


@pytest.mark.parametrize(("fmt", "package"), [("rst", "docutils.core"), ("markdown", "markdown")])
def test_the_page_has_no_fault_that_its_reader_would_tell(fmt: str, package: str) -> None:
    reader = pytest.importorskip(package, reason=f"{package} is not installed here")
    text = printed("export", f"page.{fmt}")
    if fmt == "markdown":
        html = reader.markdown(text, extensions=["tables", "fenced_code"])
        assert (html.count("<h3>"), html.count("<table>"), html.count("<pre>")) == (8, 4, 5)
        return
    strict = {"report_level": 1, "halt_level": 1, "warning_stream": False}
    assert reader.publish_doctree(f"Ops\n---\n\n{text}", settings_overrides=strict).children


def test_it_says_what_to_run_in_words_and_why() -> None:
    result = section(page_of(overview(items={**ITEMS, "6x4@gthread": (2001, 2002, 2003)})), "What to run")

    first, sure, gain, measured = result.splitlines()
    assert first == wording("export.layout-in-words")
    assert wording("export.did-more-than-each") in end_of(sure)
    assert wording("export.times-what-it-does") in gain
    assert wording("export.it-did-items") in start_of(measured)


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("1x24", "1 process x 24 threads"),
        ("8x1", "8 processes x 1 thread"),
        ("8x-", "8 processes"),
        ("2x12@gevent", "2 processes x 12 threads, gevent"),
    ],
)
def test_a_layout_in_words(layout: str, words: str) -> None:
    assert layout_words(parse_layout(layout)) == words


def test_of_what_is_as_good_it_names_what_needs_less_memory() -> None:
    result = section(page_of(overview(items={**ITEMS, "2x12@gthread": (2599, 2597, 2600)})), "What to run")

    assert wording("rank.as-good-two") in result
    assert wording("rank.where-memory-counts-take") in result


def test_what_is_not_known_apart_but_measured_less_is_not_proposed_for_its_memory() -> None:
    noisy = {
        "4x6@gthread": (2610, 1500, 3604),
        "2x12@gthread": (1805, 2190, 1311),
        "1x24@gthread": (1002, 2011, 2995),
    }
    result = section(page_of(overview(items=noisy, current=None)), "What to run")

    assert wording("rank.as-good") in result
    assert "memory" not in result


def test_when_what_is_in_use_is_as_good_nothing_has_to_change() -> None:
    result = text_of(page_of(overview(current="6x4@gthread")))

    assert wording("rank.in-use-no-change-pays") in result


def test_when_the_best_is_in_use_there_is_nothing_to_apply_or_roll_back() -> None:
    page = page_of(overview(current="4x6@gthread"))

    assert section(page, "Apply") == wording("export.nothing-to-change")
    assert Heading("Roll back") not in page
    assert Heading(wording("export.use-proposed")) not in page


def test_what_is_in_use_stands_beside_what_is_proposed() -> None:
    result = section(page_of(overview()), wording("export.use-proposed"))

    assert wording("export.in-use-and-proposed") in result
    assert wording("export.memory-row") in result
    assert wording("export.connections-opens") in result


def test_it_is_applied_and_rolled_back_without_what_only_measuring_needs() -> None:
    page = page_of(overview())

    apply, back = section(page, "Apply"), section(page, "Roll back")

    assert (
        "$ GUNICORN_CMD_ARGS='--timeout=5 --workers=4 --threads=6 --worker-class=gthread' gunicorn app:app\n"
        in apply
    )
    assert "$ tuner export gunicorn.tuner.db --snippet KIND\n" in apply
    assert wording("export.see-that-they-run") in apply
    assert "--workers=1 --threads=24 --worker-class=gthread' gunicorn app:app\n" in back
    assert "$ tuner export gunicorn.tuner.db --snippet KIND --layout 1x24@gthread\n" in back
    assert wording("export.leave-as-they-are") in apply


def test_who_did_not_say_what_is_in_use_is_reported_to_write_it_down() -> None:
    result = section(page_of(overview(current=None)), "Roll back")

    assert result == (wording("export.put-back"))


def test_the_date_to_measure_again_follows_from_the_study_s_end() -> None:
    result = section(page_of(overview()), wording("export.when-measure-again"))
    sooner = section(page_of(overview(), repeat_after_s=86400.0), wording("export.when-measure-again"))

    # begun 2026-09-21 14:13:20 UTC; the 18th launch ended 12570 s later
    assert wording("export.when-one-of-these-changes") in start_of(result)
    assert sooner.startswith("Measure again by 2026-09-22, ")
    assert "$ tuner check gunicorn.tuner.db CONFIG --current 1x24@gthread\n" in result


def test_it_says_under_what_it_was_measured() -> None:
    result = section(page_of(overview(max_load="30")), "Measurement conditions")

    assert result.splitlines() == [
        wording("export.box"),
        wording("export.system"),
        wording("export.release"),
        wording("export.software"),
        wording("export.when"),
        wording("export.how"),
        wording("export.windows-that-count"),
        wording("export.other-processes"),
        wording("export.input"),
        wording("export.limits-asked-for"),
    ]


def test_where_nothing_may_win_nothing_is_recommended() -> None:
    page = page_of(overview(max_load="1"))

    assert wording("export.nothing-recommended-no-layout-keeps") in start_of(section(page, "What to run"))
    assert Heading("Apply") not in page
    assert Heading(wording("export.when-measure-again")) not in page
    result = section(page, "What to run")
    assert result.endswith("$ tuner rank gunicorn.tuner.db --max-load 10.1\n")


def test_where_it_is_open_whether_limits_are_kept_more_is_to_be_measured() -> None:
    few = {"4x6@gthread": ITEMS["4x6@gthread"], "6x4@gthread": ITEMS["6x4@gthread"]}
    seen = overview(items=few, max_load="30", current=None)
    windows = [one for one in seen.windows if one.block == 0]
    ranking = rank(seen.study, windows, limits=seen.ranking.limits)

    fixed = section(page_of(replace(seen, ranking=ranking)), "What to run")
    race = section(
        page_of(replace(seen, ranking=ranking, study=replace(seen.study, strategy="race"))), "What to run"
    )

    assert "$ tuner grid CONFIG --like gunicorn.tuner.db --repeats 6" in fixed
    assert "$ tuner grid CONFIG --like gunicorn.tuner.db --max-load 30" in race


def test_a_study_whose_windows_are_all_void_says_what_to_do() -> None:
    result = section(page_of(overview(items=dict.fromkeys(ITEMS, (0, 0, 0)))), "What to run")

    assert wording("export.nothing-recommended-change-nothing") in start_of(result)
    assert "$ tuner report gunicorn.tuner.db\n" in result


def test_a_study_without_a_launch_says_how_to_begin() -> None:
    seen = overview(current=None)
    nothing = replace(seen, ranking=rank(seen.study, []), windows=[], launches=[])

    result = section(page_of(nothing), "What to run")

    assert "Next step: Nothing was measured yet. This starts the study:\n" in result
    assert wording("export.resume-with-config") in result


@pytest.mark.parametrize("is_typed", [False, True])
def test_what_stands_for_the_config_or_the_command_is_reported(is_typed: bool) -> None:
    kept = replace(PROVENANCE, made_by="tuner grid", is_command_typed=is_typed)
    whole = claimed(overview())
    seen = replace(whole, study=replace(whole.study, provenance=kept))
    part = claimed(overview(), reached=False)
    part = replace(part, study=replace(part.study, provenance=kept))
    why = wording("export.needed-again") + "\n"

    again = section(page_of(seen), wording("export.when-measure-again"))
    on = section(page_of(part), "What to run")

    if is_typed:
        assert wording("export.what-config-is-of-a-command", why=why) in again
        assert "$ tuner grid --resume gunicorn.tuner.db -- COMMAND\n" in on
        assert wording("export.what-command-is", why=why) in on
    else:
        assert wording("export.what-config-is", why=why) in again
        assert wording("export.what-config-is", why=why) in on


def claimed(seen: Overview, **answer: object) -> Overview:
    """The same as if a race had found it."""
    best = Answer(parse_layout("4x6@gthread"), **{"reached": True, "kind": "strict", **answer})  # type: ignore[arg-type]
    claim = Claim(best, seen.study.layouts, (), (), 0.02, 0.95, 15, 9000.0)

    def estimate(row: RankedLayout) -> Estimate:
        per_s = (row.throughput_per_10min.mean or 0.0) / 600
        return Estimate(per_s, 0.98 * per_s, 1.02 * per_s)

    known = {row.layout: estimate(row) for row in seen.ranking.rows if row.n_windows}
    return replace(
        seen,
        study=replace(seen.study, strategy="race", provenance=replace(PROVENANCE, made_by="tuner grid")),
        ranking=by_claim(seen.ranking, claim, known),
    )


def test_the_answer_of_a_race_has_its_guarantee() -> None:
    tie = parse_layout("6x4@gthread")
    page = page_of(claimed(overview(), ties=(tie,), kind="calibrated"))

    result = section(page, "What to run")
    assert wording("export.within-of-the-best") in result
    assert wording("rank.as-good-one") in result
    assert wording("export.within-of-the-best-calibrated") in section(page, "Evidence")


def test_a_race_without_an_answer_says_how_to_continue_and_nothing_to_apply() -> None:
    page = page_of(claimed(overview(), reached=False))

    result = section(page, "What to run")
    assert wording("rank.no-answer-leads") in start_of(result)
    assert wording("export.resume-with-config") in result
    assert Heading("Apply") not in page
    assert Heading(wording("export.when-measure-again")) not in page


def test_a_first_look_and_a_smaller_box_are_reported_on_top() -> None:
    record = study(box_cores=2.0, provenance=replace(PROVENANCE, is_quick=True))

    first, second, heading = page_of(overview(record))[:3]

    assert isinstance(first, Note)
    assert wording("rank.layouts-measured-on") in start_of(first.text)
    assert second == Note(wording("rank.first-look"))
    assert heading == Heading("What to run")


def test_of_a_simulated_study_nothing_is_applied() -> None:
    record = study(
        config=StoredConfig.of_sections({"study": {}, "simulate": {}}),
        provenance=Provenance(simulated="socorro"),
    )
    page = page_of(overview(record))

    assert "no service ran" in text_of(page[:1])
    assert wording("export.measure-on-a-real-box") in start_of(section(page, "Apply"))
    assert Heading("Roll back") not in page
    assert "$ tuner check gunicorn.tuner.db --current 1x24@gthread\n" in section(
        page, wording("export.when-measure-again")
    )


def test_of_many_layouts_the_first_ones_and_the_one_in_use_are_shown() -> None:
    items = {f"{number}x2": (3000 - 90 * number,) * 3 for number in range(1, 31)}
    layouts = tuple(map(parse_layout, items))
    seen = overview(study(layouts=layouts), items=items, current="30x2", costs=("memory",), max_load="99")
    page = page_of(seen)

    result = section(page, "Evidence")
    assert "in use" in result
    assert wording("export.more-are-shown", n=21) + "\n" in result
    assert wording("export.more-are-shown", n=18) + "\n" in result
    assert len(text_of(page).splitlines()) < 110

    "x--></p><script>alert(1)</script>]]>{code}|| [a](b) `c` *d* _e_"
    " \x1b[31mred\x1b[0m\n## h\r\n.. raw:: html"


HOSTILE = (
    "x--></p><script>alert(1)</script>]]>{code}|| [a](b) `c` *d* _e_"
    " \x1b[31mred\x1b[0m\n## h\r\n.. raw:: html"
)


def hostile() -> Overview:
    service = {
        **CONFIG["service"],
        "command": ["gunicorn", HOSTILE, "<hidden>"],
        "feeder": {"kind": "http", "url": HOSTILE, "rate": HOSTILE},
        "cautions": {"x": HOSTILE, "y": "include::/etc/passwd[]", "z": ".. raw:: html"},
    }
    service["variants"] = {
        name: {**variant, "command": service["command"]} for name, variant in service["variants"].items()
    }
    record = study(
        service=HOSTILE,
        config=StoredConfig.of_sections({"service": service}),
        provenance=Provenance.from_mapping(dict.fromkeys(PROVENANCE.to_mapping(), HOSTILE)),
    )
    return overview(record, name=f"-{HOSTILE}.db")


@pytest.mark.parametrize("fmt", PAGE_FORMATS)
def test_what_comes_from_a_study_is_no_markup_and_no_escape_of_a_terminal(fmt: str) -> None:
    rendered = render_document(page_of(hostile()), fmt)

    assert all(char == "\n" or char.isprintable() for char in rendered)
    if fmt in ("html", "confluence"):
        names = ' xmlns:ac="urn:ac" xmlns:ri="urn:ri"'
        root = ElementTree.fromstring(f"<page{names}>{rendered}</page>")
        assert not list(root.iter("script"))


def test_a_command_can_be_typed_as_it_stands_whatever_it_holds() -> None:
    result = section(page_of(hostile()), "Apply")

    assert "gunicorn $'x--></p><script>" in result
    assert "\\x1b[31mred\\x1b[0m\\n## h\\r\\n.. raw:: html' '<hidden>'\n" in result
    assert wording("export.studies-keep-no-secrets") in result
    assert "$ tuner export $'./-x--" in result


def test_programs_that_differ_by_their_number_are_reported_one_by_one() -> None:
    service = {
        "kind": "script",
        "name": "s",
        "command": ["work", "{threads}", "{process}"],
        "programs": "each",
    }
    record = study(config=StoredConfig.of_sections({"service": service}))
    few, many = (Starts(in_production(record, parse_layout(layout))) for layout in ("3x2", "8x2"))
    seen = overview(record, current=None)

    reported = [section(runbook_page(seen, starts), "Apply").split("The same")[0] for starts in (few, many)]

    start = "$ TUNER_PROCESSES={0} TUNER_THREADS=2 work 2 {1}\n"
    assert reported[0] == "Start these 3 programs:\n" + "".join(
        start.format(3, number) for number in range(3)
    )
    assert reported[1] == (
        "Start these 8 programs:\n"
        + "".join(start.format(8, number) for number in range(3))
        + wording("export.so-number")
    )


def test_a_service_whose_record_is_not_here_is_said() -> None:
    record = study(config=StoredConfig.of_sections({"service": {**CONFIG["service"], "record": "gone"}}))

    result = section(page_of(overview(record)), "Apply")

    assert wording("export.what-to-type-is-unknown") in start_of(result)
