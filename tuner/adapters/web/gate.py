"""Who may see pages that others than this box can reach: whoever has the token."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote

from tuner.adapters.web.server import PageRequest, Respond, Response, plain

_PARAMETER = "token"


class Gate:
    """Lets through who has the token: in the address once, then in a cookie; or as a bearer."""

    def __init__(self, respond: Respond, port: int, token: str | None = None) -> None:
        """*port* makes the cookie this server's: browsers share cookies among all ports of a host."""
        self.token = token or secrets.token_urlsafe(24)
        self._respond, self._cookie = respond, f"tuner-{port}"

    def __call__(self, request: PageRequest) -> Response:
        """The page, or 401."""
        if _PARAMETER in request.query:
            if not self._is_it(request.query[_PARAMETER]):
                return _refuse()
            kept = f"{self._cookie}={self.token}; Path=/; HttpOnly; SameSite=Lax"
            here = quote(request.path.lstrip("/"), errors="surrogateescape")  # //name would lead elsewhere
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
