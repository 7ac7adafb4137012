"""Web site of a fixed set of studies; a request cannot select other files."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from tuner.adapters.web.server import PageRequest, Respond, Response, plain
from tuner.core.errors import TunerError

# Cache of a result made from files: it is kept while they do not change, and renewed at a limited rate.

AGAIN_S = 60.0  #: time until a retry after a failure, whose cause may disappear without a change of the files
#: largest share of a core for renewals, because a study on this host counts it as CPU of other processes
SHARE = 0.02
T = TypeVar("T")


class Fresh(Generic[T]):
    """Cached result of *make*, renewed when *stamp* changes.

    Args:
        make: slow; called by one thread at a time. Its exceptions are cached and raised, too.
        stamp: cheap; its ``repr`` changes when the result of *make* would.
        monotonic_s: the time in seconds.
    """

    def __init__(
        self,
        make: Callable[[], T],
        stamp: Callable[[], object],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make, self._stamp, self._monotonic_s = make, stamp, monotonic_s
        self._made: tuple[str, T] | None = None
        #: version, error, and time of the next attempt
        self._failed: tuple[str, Exception, float] | None = None
        self._not_before_s = 0.0
        self._lock = threading.Lock()

    def version(self) -> str:
        """Return the version of a result made now."""
        return hashlib.sha256(repr(self._stamp()).encode("utf-8", "backslashreplace")).hexdigest()[:20]

    def get(self) -> tuple[str, T]:
        """Return the result and its version: the current one, or an earlier one if making it is slow and
        recent.

        Raises:
            Exception: the exception of *make*, now or before: it is not retried at each call.
        """
        with self._lock:
            version = self.version()  # read before it is made, so that later changes are detected next time
            made = self._made
            if made is not None and (made[0] == version or self._monotonic_s() < self._not_before_s):
                return made
            failed, now_s = self._failed, self._monotonic_s()
            if failed is not None and now_s < (failed[2] if failed[0] == version else self._not_before_s):
                raise failed[1].with_traceback(None)
            self._failed, began_s = None, time.thread_time()
            try:
                self._made = made = version, self._make()
            except Exception as error:
                self._made, self._failed = None, (version, error, now_s + AGAIN_S)
                raise
            finally:
                self._not_before_s = self._monotonic_s() + (time.thread_time() - began_s) / SHARE
            return made


# Access control for pages that other hosts can reach: a token.

_PARAMETER = "token"


class TokenGate:
    """Admits requests with the token: in the address once, then in a cookie; or as a bearer token."""

    def __init__(self, respond: Respond, port: int, token: str | None = None) -> None:
        """Set up the gate; *port* is part of the cookie's name, because all ports of a host share cookies."""
        self.token = token or secrets.token_urlsafe(24)
        self._respond, self._cookie = respond, f"tuner-{port}"

    def __call__(self, request: PageRequest) -> Response:
        """Return the page, or 401."""
        if _PARAMETER in request.query:
            if not self._is_it(request.query[_PARAMETER]):
                return _refuse()
            kept = f"{self._cookie}={self.token}; Path=/; HttpOnly; SameSite=Lax"
            here = quote(request.path.lstrip("/"), errors="surrogateescape")  # //name would be another host
            return Response(  # without the token, which would stay in the browser's history
                status=HTTPStatus.SEE_OTHER, headers={"Location": f"/{here}", "Set-Cookie": kept}
            )
        if self._is_it(_of_cookie(request, self._cookie)) or self._is_it(_of_header(request)):
            return self._respond(request)
        return _refuse()

    def _is_it(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


def _of_cookie(request: PageRequest, name: str) -> str:
    try:
        cookies = SimpleCookie(request.headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""


def _of_header(request: PageRequest) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _refuse() -> Response:
    return plain(
        HTTPStatus.UNAUTHORIZED,
        "tuner serve printed an address with a token: open that one",
        WWW_Authenticate="Bearer",
    )


_STUDY, _API = "/study/", "/api/study/"
#: a page sets its policy for scripts and styles, but a policy against frames works only as a header
_PAGE_HEADERS = {"Content-Security-Policy": "frame-ancestors 'none'"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A study that is served."""

    page: Fresh[bytes]  #: HTML
    facts: Fresh[dict[str, Any]]  #: facts of its ranking, for programs
    now: Callable[[], dict[str, Any]]  #: present activity, for programs and people; cheap to compute
    summary: Fresh[dict[str, Any]]  #: entry in the list of studies


Studies = Callable[[], Mapping[str, Shown]]  #: returns the studies by name


class Site:
    """Answers requests for *studies*; *index* makes a page of the summaries, with addresses."""

    def __init__(self, studies: Studies, index: Callable[[list[dict[str, Any]]], str]) -> None:
        self._studies, self._index = studies, index

    def __call__(self, request: PageRequest) -> Response:
        """Return the page, the facts, or 404."""
        studies, path = self._studies(), request.path
        try:
            if path == "/":
                if len(studies) == 1:
                    return _redirect(f"{_STUDY}{_quote(next(iter(studies)))}")
                return _page(self._index(_summaries(studies)).encode())
            if path == "/favicon.ico":
                return Response(status=HTTPStatus.NO_CONTENT)
            if path == "/api/studies":
                return _json({"schema_version": 1, "studies": _summaries(studies)})
            for prefix in (_STUDY, _API):
                if path.startswith(prefix):
                    return _of_study(studies, prefix, path.removeprefix(prefix), request)
        except TunerError as error:
            return plain(HTTPStatus.SERVICE_UNAVAILABLE, error.problem)
        return plain(HTTPStatus.NOT_FOUND, "there is no such page")


def _of_study(studies: Mapping[str, Shown], prefix: str, rest: str, request: PageRequest) -> Response:
    if rest in studies:
        shown = studies[rest]
        if prefix == _STUDY:
            return _study_page(shown.page, request)
        _, facts = shown.facts.get()
        return _json({**facts, "now": shown.now()})
    name, _, last = rest.rpartition("/")
    if prefix == _STUDY and last == "now" and name in studies:
        shown = studies[name]
        return _json({"schema_version": 1, "version": shown.page.version(), **shown.now()})
    return plain(HTTPStatus.NOT_FOUND, "there is no such study")


def _study_page(page: Fresh[bytes], request: PageRequest) -> Response:
    version, body = page.get()
    tag = f'"{version}"'
    seen = request.headers.get("if-none-match", "")
    if tag in (one.strip().removeprefix("W/") for one in seen.split(",")):
        return Response(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag, **_PAGE_HEADERS})
    return _page(body, ETag=tag)


def _summaries(studies: Mapping[str, Shown]) -> list[dict[str, Any]]:
    """Return a summary of each study; an unreadable one has its error, and the others are still listed."""
    listed = []
    for name, shown in studies.items():
        try:
            _, facts = shown.summary.get()
        except TunerError as error:
            facts = {"problem": error.problem}
        address = _quote(name)
        listed.append({"name": name, "page": f"{_STUDY}{address}", "facts": f"{_API}{address}", **facts})
    return listed


def _page(body: bytes, **headers: str) -> Response:
    return Response(body, content_type="text/html; charset=utf-8", headers={**_PAGE_HEADERS, **headers})


def _json(content: Any) -> Response:
    text = json.dumps(content, allow_nan=False)  # ASCII: allows half surrogates of file names
    return Response(f"{text}\n".encode(), content_type="application/json")


def _quote(name: str) -> str:
    return quote(name, safe="", errors="surrogateescape")


def _redirect(path: str) -> Response:
    return Response(status=HTTPStatus.FOUND, headers={"Location": path})
