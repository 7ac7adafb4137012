"""Pages of studies: which there are, when they are made anew, and who may see them."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest

from tuner.adapters.web.server import PageRequest, Response, plain
from tuner.adapters.web.site import AGAIN_S, SHARE, Fresh, Shown, Site, TokenGate
from tuner.core.errors import ConfigError
from tuner.reports.page.index import render_index

pytestmark = pytest.mark.pythons

STAMPS = {"a.tuner.db": 1, "b c.tuner.db": 1}


def shown(name: str, summary: Callable[[], dict[str, Any]] | None = None) -> Shown:
    facts = {
        "service": "<b>s", "strategy": "race", "simulated": False, "created_wall_s": 1.7e9, "n_layouts": 3,
        "n_windows": 4, "n_void": 1, "is_measured": True,
    }  # fmt: skip
    return Shown(
        page=Fresh(lambda: f"<p>{name}".encode(), lambda: STAMPS[name]),
        facts=Fresh(lambda: {"schema_version": 1}, lambda: STAMPS[name]),
        now=lambda: {"is_measured": True, "live": None, "rows": [], "told": []},
        summary=Fresh(summary or (lambda: facts), lambda: STAMPS[name]),
    )


def site(*names: str) -> Site:
    studies = {name: shown(name) for name in names or STAMPS}
    return Site(lambda: studies, render_index)


def ask(respond: Callable[[PageRequest], Response], path: str, query: str = "", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return respond(PageRequest(path, {"token": query} if query else {}, named))


def test_one_study_is_shown_at_once_and_several_are_listed() -> None:
    one = ask(site("b c.tuner.db"), "/")
    several = ask(site(), "/").body.decode()

    assert (one.status, one.headers["Location"]) == (HTTPStatus.FOUND, "/study/b%20c.tuner.db")
    assert '<a href="/study/b%20c.tuner.db">b c.tuner.db</a>' in several
    assert "&lt;b&gt;s" in several
    assert "<script" not in several


def test_a_study_that_cannot_be_read_says_why_and_does_not_hide_the_others() -> None:
    def broken() -> dict[str, Any]:
        raise ConfigError("a.tuner.db is <damaged>")

    studies = {"a.tuner.db": shown("a.tuner.db", broken), "b c.tuner.db": shown("b c.tuner.db")}
    listed = json.loads(ask(Site(lambda: studies, render_index), "/api/studies").body)["studies"]

    assert [one.get("problem") for one in listed] == ["a.tuner.db is <damaged>", None]
    assert "is &lt;damaged&gt;" in ask(Site(lambda: studies, render_index), "/").body.decode()


def test_a_page_that_is_known_is_not_sent_again_until_its_study_has_changed() -> None:
    pages = site()
    first = ask(pages, "/study/a.tuner.db")
    again = ask(pages, "/study/a.tuner.db", if_none_match=f'W/"x", {first.headers["ETag"]}')
    now = json.loads(ask(pages, "/study/a.tuner.db/now").body)

    assert first.body == b"<p>a.tuner.db"
    assert (again.status, again.body) == (HTTPStatus.NOT_MODIFIED, b"")
    assert first.headers["ETag"] == f'"{now["version"]}"'
    STAMPS["a.tuner.db"] += 1
    assert json.loads(ask(pages, "/study/a.tuner.db/now").body)["version"] != now["version"]


def test_the_facts_of_a_study_are_those_of_its_ranking_and_what_runs() -> None:
    facts = json.loads(ask(site(), "/api/study/a.tuner.db").body)

    assert facts == {"schema_version": 1, "now": {"is_measured": True, "live": None, "rows": [], "told": []}}


@pytest.mark.parametrize(
    "path", ["/study/", "/study/../a.tuner.db", "/study//etc/passwd", "/study/../../etc/passwd",
             "/etc/passwd", "/a.tuner.db", "/api/study/x", "/study/a.tuner.db/", "/study/a.tuner.db/now/now",
             "/study/a.tuner.db\x00", "/api/study/a.tuner.db/now", "/study/A.tuner.db", "//"],
)  # fmt: skip
def test_what_was_not_named_is_not_there(path: str) -> None:
    assert ask(site(), path).status == HTTPStatus.NOT_FOUND


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_page_is_made_once_for_each_state_of_its_study() -> None:
    made: list[int] = []
    state = [0]
    clock = Clock()
    page = Fresh(lambda: made.append(state[0]) or state[0], lambda: state[0], clock)

    assert [page.get()[1] for _ in range(3)] == [0, 0, 0]
    state[0] = 1
    clock.now_s += 1e6
    assert [page.get()[1] for _ in range(3)] == [1, 1, 1]
    assert made == [0, 1]


def test_a_page_that_is_dear_to_make_is_not_made_as_often_as_its_study_changes() -> None:
    """At most a share of a core goes into it, however often the study changes."""
    import time

    state, clock = [0], Clock()

    def dear() -> int:
        until_s = time.thread_time() + 0.02
        while time.thread_time() < until_s:
            pass
        return state[0]

    page = Fresh(dear, lambda: state[0], clock)
    page.get()
    state[0] = 1
    assert page.get()[1] == 0
    clock.now_s += 0.9 * 0.02 / SHARE
    assert page.get()[1] == 0
    clock.now_s += 60
    assert page.get()[1] == 1


def test_what_cannot_be_made_is_tried_again_once_its_study_has_changed_or_after_a_while() -> None:
    tried: list[int] = []
    state, clock = [0], Clock()

    def broken() -> int:
        tried.append(state[0])
        if state[0] < 2:
            raise ConfigError(f"damaged {state[0]}")
        return state[0]

    page = Fresh(broken, lambda: state[0], clock)
    for _ in range(3):
        with pytest.raises(ConfigError, match="damaged 0"):
            page.get()
    assert tried == [0]
    clock.now_s += AGAIN_S
    for _ in range(3):  # a right that was given, say: no stamp tells
        with pytest.raises(ConfigError, match="damaged 0"):
            page.get()
    assert tried == [0, 0]
    state[0] = 1
    clock.now_s += 1.0
    with pytest.raises(ConfigError, match="damaged 1"):
        page.get()
    state[0] = 2
    clock.now_s += 1.0
    assert page.get()[1] == 2
    assert tried == [0, 0, 1, 2]


@pytest.fixture
def gate() -> TokenGate:
    return TokenGate(lambda _: plain(HTTPStatus.OK, "inside"), 8765)


def test_without_the_token_nothing_is_seen(gate: TokenGate) -> None:
    assert ask(gate, "/").status == HTTPStatus.UNAUTHORIZED
    for wrong in ("x", gate.token[:-1], f"{gate.token}x", "é", "\udcff"):
        assert ask(gate, "/", wrong).status == HTTPStatus.UNAUTHORIZED
        assert ask(gate, "/", authorization=f"Bearer {wrong}").status == HTTPStatus.UNAUTHORIZED
        assert ask(gate, "/", cookie=f"tuner-8765={wrong}").status == HTTPStatus.UNAUTHORIZED
    assert ask(gate, "/", cookie='a="b; =;;\x00').status == HTTPStatus.UNAUTHORIZED
    assert ask(gate, "/", cookie=f"tuner-9={gate.token}").status == HTTPStatus.UNAUTHORIZED


def test_the_token_goes_from_the_address_into_a_cookie_that_scripts_cannot_read(gate: TokenGate) -> None:
    entered = ask(gate, "/study/a b", gate.token)

    assert (entered.status, entered.headers["Location"]) == (HTTPStatus.SEE_OTHER, "/study/a%20b")
    cookie, *kept = entered.headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Lax"} <= set(kept)
    assert ask(gate, "/", cookie=cookie).body == b"inside\n"
    assert ask(gate, "/", authorization=f"Bearer {gate.token}").body == b"inside\n"


def test_the_token_never_leads_to_another_host(gate: TokenGate) -> None:
    assert ask(gate, "//elsewhere.example/x", gate.token).headers["Location"] == "/elsewhere.example/x"


def test_every_server_has_a_token_of_its_own() -> None:
    tokens = {TokenGate(lambda _: Response(), 1).token for _ in range(20)}

    assert len(tokens) == 20
    assert min(map(len, tokens)) >= 32
