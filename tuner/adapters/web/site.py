"""The pages of some studies: which there are is decided here, never by what a reader types."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from tuner.adapters.web.fresh import Fresh
from tuner.adapters.web.server import PageRequest, Response, plain
from tuner.core.errors import TunerError

_STUDY, _API = "/study/", "/api/study/"
#: a page itself says what its script and style are, and cannot say that it is in nobody's frame
_PAGE_HEADERS = {"Content-Security-Policy": "frame-ancestors 'none'"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A study, as it is served."""

    page: Fresh[bytes]  #: HTML
    facts: Fresh[dict[str, Any]]  #: of its ranking, for programs
    now: Callable[[], dict[str, Any]]  #: what runs, for programs and for people; cheap
    summary: Fresh[dict[str, Any]]  #: for the list of studies


Studies = Callable[[], Mapping[str, Shown]]  #: by name, at this moment


class Site:
    """Answers for *studies*; *index* makes a page of the summaries, with addresses."""

    def __init__(self, studies: Studies, index: Callable[[list[dict[str, Any]]], str]) -> None:
        self._studies, self._index = studies, index

    def __call__(self, request: PageRequest) -> Response:
        """The page, the facts, or 404."""
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
    """One that cannot be read says why, and the others are listed all the same."""
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
    text = json.dumps(content, allow_nan=False)  # ASCII: half characters of file names pass
    return Response(f"{text}\n".encode(), content_type="application/json")


def _quote(name: str) -> str:
    return quote(name, safe="", errors="surrogateescape")


def _redirect(path: str) -> Response:
    return Response(status=HTTPStatus.FOUND, headers={"Location": path})
