"""The load generator before several processes, each at an address of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from .http_service import answer, running, says
from .test_load_generator import order, sent

pytestmark = pytest.mark.integration


def test_connections_go_to_all_processes_in_turn(tmp_path: Path) -> None:
    with running(says(answer())) as one, running(says(answer())) as other, running(says(answer())) as third:
        others = (("127.0.0.1", other.port), ("127.0.0.1", third.port))
        totals = sent(order(one.port, clients=6, others=others), tmp_path)

    assert (totals.n_done, totals.n_failed) == (200, {})
    assert [service.n_connections for service in (one, other, third)] == [1 + 2, 2, 2]
    assert one.n_requests + other.n_requests + third.n_requests == 200


def test_at_a_rate_every_process_has_its_share(tmp_path: Path) -> None:
    with running(says(answer())) as one, running(says(answer())) as other:
        asked = order(one.port, rate_per_s=200.0, max_outstanding=4, others=(("127.0.0.1", other.port),))
        totals = sent(asked, tmp_path)

    n_requests = one.n_requests, other.n_requests
    assert sum(n_requests) == totals.n_done
    assert min(n_requests) >= 50
