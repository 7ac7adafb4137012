from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.model.demand import Demands
from tuner.core.model.diagnosis.evidence import NO_CLOCKS, Evidence
from tuner.core.model.diagnosis.explanation import Explanation, explain
from tuner.core.model.diagnosis.sizing import Rule, sizing_rules
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.ranking.ranked import Ranking
from tuner.core.ranking.ranking import rank
from tuner.reports.model.explain import explanation_notes, render_explanation, render_explanation_json
from tuner.reports.ranking.ranking import render_ranking
from tuner.reports.text.formats import table_formats

from ..printed import printed
from ..wording import key_of, wording

SERVICE = Demands(gil_s=0.6, child_s=3.3, asleep_s=0.5, blocked_s=0.05)
MACHINE = Machine(24)
LAYOUTS = tuple(map(parse_layout, ("1x1", "1x24", "4x6", "24x1", "8x6", "2x12")))
STUDY = StudyRecord(
    service="crash-processor", strategy="all", layouts=LAYOUTS, cores=24, box_cores=24.0, window_s=600.0,
    warmup_s=None, n_blocks=1, windows_per_launch=1, seed=1, budget_s=None,
    created_wall_s=1_790_000_000.0, config=StoredConfig("{}"), provenance=Provenance(host="stage-1"),
)  # fmt: skip


def seen_of(layout: Layout) -> Evidence:
    """What ten minutes show of a layout that does as the model says."""
    given = predict(SERVICE, MACHINE, [layout])
    n = round(600 * float(given.throughput_per_s[0]))
    own_s, child_s, blocked_s = n * SERVICE.gil_s, n * SERVICE.child_s, n * SERVICE.blocked_s
    window = WindowRecord(
        launch_id=1, block=0, layout=layout, box="stage-1", index=0, attempt=1, started_wall_s=0.0,
        length_s=600.0, n_done=n, n_failed=0, load1_mean=9.0, load1_max=10.0, n_active_mean=None,
        service_cpu_s=own_s + child_s, tuner_cpu_s=0.0, backend_cpu_s=0.0, foreign_cpu_s=0.0, steal_s=0.0,
        pss_bytes=None, void=(), worker_cpu_s=own_s, child_cpu_s=child_s, blocked_s=blocked_s,
    )  # fmt: skip
    memory = "its memory is 9.66 GB, and the limit is 8.59 GB" if layout == Layout(8, 6) else None
    others_s = 360.0 if layout == Layout(24, 1) else 0.0
    return Evidence(
        *(layout, 600.0, n, n, own_s, child_s, others_s),
        blocked_s=blocked_s,
        memory=memory,
        read_windows=lambda: (window,),
        read_launches=lambda: (window,),
    )


@pytest.fixture(scope="module")
def found() -> Explanation:
    return explained()


def explained() -> Explanation:
    """All layouts but one; with a note of ours."""
    found = explain([seen_of(layout) for layout in LAYOUTS if layout != Layout(2, 12)], MACHINE)
    return replace(
        found, references={"": replace(found.references[""], notes=(wording("model.cannot-tell"),))}
    )


@pytest.fixture(scope="module")
def rules(found: Explanation) -> list[Rule]:
    return sizing_rules(found.references[""].demands, MACHINE, found.known_of(""))


def test_a_rule_for_one_thread_is_in_the_singular(found: Explanation) -> None:
    computes = Demands(gil_s=0.02)
    rules = sizing_rules(computes, Machine(1), found.known_of(""))
    rule = next(one for one in rules if one.kind == "threads")
    assert (rule.count, rule.what) == (1, "thread that fills one process")


def test_the_explanation_looks_as_it_should(found: Explanation, rules: list[Rule]) -> None:
    rendered = render_explanation(STUDY, found, rules)

    assert rendered == printed("explain", "plain.simple")
    assert max(map(len, rendered.split("\n\n")[1].splitlines())) <= 100


def rounded(content: object) -> object:
    """To a thousandth: the last digits of the model's figures move with its rounding and with the numpy."""
    if isinstance(content, float):
        return pytest.approx(content, rel=2e-3, abs=1e-3)
    if isinstance(content, dict):
        return {name: rounded(value) for name, value in content.items()}
    return [rounded(value) for value in content] if isinstance(content, list) else content


def test_the_json_looks_as_it_should(found: Explanation, rules: list[Rule]) -> None:
    rendered = json.loads(render_explanation_json(STUDY, found, rules))

    assert rendered == rounded(json.loads(printed("explain", "plain.json")))


def test_what_is_not_known_is_one_sentence_in_both() -> None:
    assert render_explanation(STUDY, NO_CLOCKS, ()).endswith(f"\n\n{NO_CLOCKS}\n")
    content = json.loads(render_explanation_json(STUDY, NO_CLOCKS, ()))
    assert (content["unknown"], content["layouts"], content["rules"]) == (NO_CLOCKS, [], [])


def test_layouts_without_evidence_a_smaller_box_and_no_model_are_reported() -> None:
    found = explain([seen_of(Layout(1, 24))], MACHINE)

    text = render_explanation(replace(STUDY, cores=48), found, ())

    assert wording("model.measured-on-another-box") in text
    assert wording("model.nothing-modelled") in text
    assert wording("model.nothing-is-known-of") in text


def of_variants(*variants: str) -> Explanation:
    """The same of each variant; the fastest layout is of the first."""
    plain = explained()
    diagnoses = tuple(
        replace(one, layout=replace(one.layout, variant=variant))
        for variant in variants
        for one in plain.diagnoses
    )
    return replace(plain, diagnoses=diagnoses, references=dict.fromkeys(variants, plain.references[""]))


def test_what_no_variant_can_tell_is_said_once() -> None:
    found = of_variants("fork", "threads")

    assert explanation_notes(STUDY, found, ()).count(wording("model.cannot-tell")) == 1


@pytest.mark.parametrize(
    ("variants", "of", "text"),
    [
        (("fork", "threads"), "fork", wording("model.rules-of-variant")),
        (("fork", "threads"), "threads", wording("model.rules-of-slower-variant")),
        (("", "threads"), "", wording("model.rules-of-service")),
        (("fork",), "fork", None),
    ],
    ids=key_of,
)
def test_rules_say_of_which_of_several_variants_they_are(
    variants: tuple[str, ...], of: str, text: str | None, rules: list[Rule]
) -> None:
    found = of_variants(*variants)

    notes = explanation_notes(STUDY, found, [replace(rule, variant=of) for rule in rules])

    said = [] if text is None else [text]
    assert [note for note in notes if note.startswith(wording("model.rules-are-for"))] == said
    assert not any(
        note.startswith(wording("model.rules-are-for")) for note in explanation_notes(STUDY, found, ())
    )


def ranking_with(bound: bool) -> Ranking:
    windows = [
        WindowRecord(
            launch_id=number, block=block, layout=layout, box="stage-1", index=0, attempt=1,
            started_wall_s=0.0, length_s=600.0, n_done=1000 * number + 20 * block, n_failed=0, load1_mean=9.0,
            load1_max=10.0, n_active_mean=9.0, service_cpu_s=9000.0, tuner_cpu_s=1.0, backend_cpu_s=0.0,
            foreign_cpu_s=1.0, steal_s=0.0, pss_bytes=123e6, void=(),
        )
        for block in range(2)
        for number, layout in enumerate(LAYOUTS, 1)
    ]  # fmt: skip
    ranking = rank(STUDY, windows)
    if not bound:
        return ranking.with_bound_by({}, NO_CLOCKS)
    return ranking.with_bound_by({**explained().bound_by, Layout(4, 6): ("cores", "gil")}, None)


@pytest.mark.parametrize("fmt", ["simple", "markdown", "csv"])
def test_the_ranking_carries_what_binds_as_a_column(fmt: str) -> None:
    rendered = render_ranking(STUDY, ranking_with(bound=True), fmt)

    assert rendered == printed("rank", f"bound.{fmt}")


def test_the_table_with_the_column_fits_a_hundred_columns() -> None:
    table = render_ranking(STUDY, ranking_with(bound=True), "simple").split("\n\n")[1]

    assert "bottleneck" in table
    assert max(map(len, table.splitlines())) <= 100


def test_the_json_has_codes_and_null_where_it_is_not_known() -> None:
    rows = json.loads(render_ranking(STUDY, ranking_with(bound=True), "json"))["layouts"]

    assert {row["layout"]: row["bound_by"] for row in rows} == {
        "1x1": ["waiting"], "1x24": ["gil"], "4x6": ["cores", "gil"], "24x1": ["cores"], "8x6": ["memory"],
        "2x12": None,
    }  # fmt: skip


@pytest.mark.parametrize("fmt", table_formats())
def test_every_format_has_the_column_where_it_is_known_and_else_says_why_once(fmt: str) -> None:
    known = render_ranking(STUDY, ranking_with(bound=True), fmt)
    unknown = render_ranking(STUDY, ranking_with(bound=False), fmt)

    assert "bound" in known.splitlines()[0] if fmt in ("csv", "tsv") else "bottleneck" in known
    assert NO_CLOCKS[:40] not in known
    if fmt in ("csv", "tsv"):
        assert all(NO_CLOCKS in line for line in unknown.splitlines()[1:])
    else:
        assert unknown.count(wording("model.what-binds-is-not-known")) == 1
        assert "bottleneck" not in unknown.replace("bottlenecks", "")
