"""How many clients load a service: the rules of the search, and what it tells beside the number."""

from __future__ import annotations

import pytest

from tuner.core.domain.layout import parse_layout
from tuner.core.domain.load import (
    EVEN,
    FRESH,
    KEPT,
    ClientSearchResult,
    Connections,
    TriedClients,
    choose,
    clients_for,
    first_clients,
    hardest_to_load,
    has_risen,
    parse_client_search,
    parse_connections,
    render_client_search,
    render_connections,
    requests_at_once,
)
from tuner.core.errors import ConfigError


def test_the_search_begins_with_two_clients_a_thread_of_the_largest_layout() -> None:
    layouts = [parse_layout(text) for text in ("1x2", "1x8", "4x2", "2x2")]

    assert first_clients(layouts) == 16
    assert str(hardest_to_load(layouts)) == "4x2"


@pytest.mark.parametrize(
    ("rates", "risen", "clients"),
    [((10.0,), True, 4), ((10.0, 10.2), True, 8), ((10.0, 10.19), False, 8), ((10.0, 9.0), False, 4)],
)
def test_doubling_continues_while_it_brings_two_percent(rates, risen, clients) -> None:
    tried = [TriedClients(4 * 2**n, per_s) for n, per_s in enumerate(rates)]

    assert has_risen(tried) is risen
    assert choose(tried) == clients


def test_what_was_found_is_kept_with_the_study() -> None:
    found = ClientSearchResult(64, "2x-", (TriedClients(32, 300.5), TriedClients(64, 301.0)), saturates=True)

    assert parse_client_search(render_client_search(found), 64) == found
    assert parse_client_search(None, 64) is None
    assert parse_client_search("[]", 64) is None


def test_a_number_that_the_user_set_since_is_not_the_one_that_was_found() -> None:
    found = ClientSearchResult(64, "2x-", (TriedClients(32, 300.5), TriedClients(64, 301.0)), saturates=True)

    assert parse_client_search(render_client_search(found), 32) is None
    assert parse_client_search(render_client_search(found), None) is None


@pytest.mark.parametrize(("layout", "clients"), [("1x1", 24), ("2x4", 24), ("2x8", 48), ("3x3", 27)])
def test_a_layout_with_more_threads_has_more_clients_in_proportion(layout: str, clients: int) -> None:
    """24 clients load 8 threads: three for each."""
    found = ClientSearchResult(24, "2x4", (TriedClients(16, 300.5), TriedClients(24, 301.0)), saturates=True)

    assert clients_for(parse_layout(layout), found) == clients


def test_by_littles_law_the_threads_are_found_that_an_event_loop_hides() -> None:
    """40 threads in each of 2 processes, items of 100 ms: 800/s, however many clients there are."""
    tried = tuple(TriedClients(n, min(n / 0.1, 800.0)) for n in (4, 8, 16, 32, 64, 128, 256))

    assert requests_at_once(ClientSearchResult(128, "2x-", tried, saturates=True)) == pytest.approx(40)
    assert (
        requests_at_once(
            ClientSearchResult(8, "2x4", (TriedClients(16, 80), TriedClients(32, 80)), saturates=True)
        )
        is None
    )


@pytest.mark.parametrize(
    ("text", "connections"),
    [("even", EVEN), ("fresh", FRESH), ("Kept", KEPT), ("reuse: 100", Connections(100)), ("reuse:1", FRESH)],
)
def test_connections_are_read_and_written(text: str, connections: Connections) -> None:
    assert parse_connections(text) == connections
    assert parse_connections(render_connections(connections)) == connections


@pytest.mark.parametrize("text", ["", "new", "reuse", "reuse: 0", "-1", "64"])
def test_other_words_for_connections_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_connections(text)
