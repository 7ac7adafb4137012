"""A service that the load generator left without requests: what is said of it; no answer rests on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.load import ClientSearchResult, TriedClients, render_client_search
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.requests import ConnectionSpread
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.errors import ConfigError
from tuner.core.model.diagnosis.diagnose import diagnose_one
from tuner.core.model.diagnosis.evidence import Evidence, Loaded
from tuner.core.model.diagnosis.explanation import explain
from tuner.core.model.diagnosis.text import sentence, short
from tuner.core.model.machine import Machine
from tuner.core.ranking.ranking import rank
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.windows.launch_sums import window_of_sums
from tuner.core.windows.load_facts import load_facts
from tuner.reports.ranking.ranking import render_ranking
from tuner.reports.ranking.ranking_words import reservations, verdict
from tuner.study.calibration_run import read_calibration
from tuner.study.run import run_study

from ..raising import raises
from ..wording import wording

BOX = Machine(4)
SERVICE = VirtualService({Layout(1, 2): 10.0, Layout(2, 1): 20.0})
#: 40 threads in each of two processes, items of 100 ms
POOL = ClientSearchResult(
    128, "2x-", tuple(TriedClients(n, min(n / 0.1, 800.0)) for n in (4, 8, 16, 32, 64, 128)), saturates=True
)


def study(*, found: ClientSearchResult | None = None, **service: object) -> StudyRecord:
    clients = 4 if found is None else found.clients
    config = {"service": {"feeder": {"kind": "http", "clients": clients}, **service}}
    record = virtual_study(SERVICE, window_s=5.0)
    provenance = Provenance(clients_found=None if found is None else render_client_search(found))
    return replace(record, config=StoredConfig.of_sections(config), provenance=provenance)


def seen(
    text: str, *, of: StudyRecord, spread: ConnectionSpread | None = None, cores: float = 0.1
) -> Evidence:
    layout = parse_layout(text)
    reported = (
        1000,
        0,
        100.0,
        100 * cores,
        *(0.0,) * 4,
        100 * cores,
        *(0.0,) * 6,
        None,
        None,
        0.0,
        0.0,
        *(None,) * 5,
    )
    windows = [window_of_sums(layout, reported)]
    facts = load_facts(of)
    assert facts is not None
    load = Loaded(facts, spread, facts.takes_many(layout, spread))
    return Evidence(layout, 100.0, 1000, 1000, 100 * cores, 0.0, load=load, read_launches=lambda: windows)


def even(*per_worker: float, starved: float = 0.0) -> ConnectionSpread:
    """Looked at for 100 s."""
    return ConnectionSpread(100.0, 100 * starved, tuple(100 * n for n in per_worker))


def test_an_event_loop_with_nothing_full_is_short_of_connections_unless_more_were_seen_to_bring_nothing() -> (
    None
):
    given_by_user = seen("2x-", of=study(event_loop=True), spread=even(2, 2))
    found = seen("2x-", of=study(event_loop=True, found=POOL), spread=even(64, 64))
    busy = seen("2x-", of=study(event_loop=True), spread=even(2, 2), cores=3.9)

    assert diagnose_one(given_by_user, BOX, None).what == ("connections",)
    assert diagnose_one(found, BOX, None).what == ("waiting",)
    assert set(diagnose_one(busy, BOX, None).what) <= {"cores", "gil"}


def test_a_service_that_takes_several_connections_without_threads_is_taken_for_an_event_loop() -> None:
    several = seen("2x-", of=study(), spread=even(2, 2))
    sync = seen("2x-", of=study(), spread=even(1, 1))  # the others wait to be accepted
    hidden = seen("2x-", of=study())

    assert diagnose_one(several, BOX, None).what == ("connections",)
    assert diagnose_one(sync, BOX, None).what == ("waiting",)
    assert diagnose_one(hidden, BOX, None).what == ("waiting",)


@pytest.mark.parametrize(("starved", "what"), [(2.0, "connections"), (0.19, "waiting")])
def test_threads_without_a_request_while_others_have_too_many_are_the_load_s_fault(
    starved: float, what: str
) -> None:
    one = seen("2x2", of=study(), spread=even(8, 0, starved=starved))

    assert diagnose_one(one, BOX, None).what == (what,)


def test_it_is_said_in_words_with_the_connections_of_the_workers() -> None:
    uneven = diagnose_one(seen("2x2", of=study(), spread=even(8, 0, starved=2.0)), BOX, None)
    few = diagnose_one(seen("2x-", of=study(event_loop=True), spread=even(2, 2)), BOX, None)
    hidden = diagnose_one(seen("2x-", of=study(event_loop=True, found=POOL), spread=even(64, 64)), BOX, None)

    assert short(uneven.what) == "connections"
    assert wording("model.uneven-connections") in sentence(uneven)
    assert wording("model.all-connections-busy") in sentence(few)
    assert wording("model.hidden-limit") in sentence(hidden)


@pytest.mark.parametrize(("delay_s", "bottleneck"), [(60.0, "waiting"), (170.0, "cores")])
def test_a_loop_that_is_idle_for_some_of_the_time_is_not_slowed_by_other_processes(
    delay_s: float, bottleneck: str
) -> None:
    """Both loops together wait for cores for 60 of 200 s, or 170: the first have time left."""
    of = study(event_loop=True, found=POOL)
    on_full_host = replace(
        seen("2x-", of=of, spread=even(64, 64), cores=0.02), others_cpu_s=398.0, run_delay_s=delay_s
    )

    assert diagnose_one(on_full_host, BOX, None).what == (bottleneck,)


def test_no_rule_of_size_takes_the_process_of_an_event_loop_for_a_thread() -> None:
    of = study(event_loop=True)
    loops = explain([seen(text, of=of, spread=even(2)) for text in ("1x-", "2x-")], BOX)
    threads = explain([seen("1x1", of=study()), seen("1x2", of=study())], BOX)

    assert dict(loops.references) == {}
    assert {one.gain_ratio for one in loops.diagnoses} == {None}
    assert set(threads.references) == {""}


def test_no_answer_rests_on_a_layout_that_lacked_connections() -> None:
    store = MemoryStore(virtual_study(SERVICE, window_s=5.0, n_blocks=2))
    run_study(VirtualBox(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))
    ranking = rank(store.study(), store.windows())
    starved = ranking.with_bound_by({Layout(1, 2): ("connections",), Layout(2, 1): ("cores",)}, None)

    assert not reservations(store.study(), ranking)
    assert wording("rank.no-answer-under-small-load") in verdict(starved)
    assert any(
        wording("rank.connections-were-the-bottleneck") in one for one in reservations(store.study(), starved)
    )
    text = render_ranking(store.study(), starved, "simple")
    assert wording("rank.connections-were-the-bottleneck") in text
    assert verdict(ranking) not in text


def test_a_fixed_rate_or_another_feeder_is_no_closed_loop() -> None:
    at_a_rate = study(feeder={"kind": "http", "rate": 200.0})

    assert load_facts(at_a_rate) is None
    assert load_facts(study(feeder={"kind": "queue"})) is None
    assert load_facts(virtual_study(SERVICE, window_s=5.0)) is None


def test_the_model_is_not_fitted_to_what_works_on_many_requests_at_once() -> None:
    def calibrated(**service: object) -> object:
        store = MemoryStore(study(**service))
        run_study(
            VirtualBox(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study())
        )
        return read_calibration(store, "s.tuner.db")

    assert calibrated() is not None
    with raises(ConfigError, wording("model.many-requests-at-once")):
        calibrated(event_loop=True)
