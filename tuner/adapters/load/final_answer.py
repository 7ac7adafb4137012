"""HTTP answers of http.client, without those that are not final."""

from __future__ import annotations

import http.client

_MOST_INTERIM = 100  #: before an answer; a server may send several


class FinalResponse(http.client.HTTPResponse):
    """Skips every interim answer (1xx), as RFC 9110 asks of clients: http.client itself skips 100 alone.

    Use it as ``response_class`` of a connection. 101 is left: the server speaks another protocol after it.
    """

    def begin(self) -> None:
        """Read up to the end of the final answer's headers."""
        super().begin()
        n_interim = 0
        while 100 <= self.status < 200 and self.status != http.client.SWITCHING_PROTOCOLS:
            n_interim += 1
            if n_interim > _MOST_INTERIM:
                raise http.client.HTTPException(f"more than {_MOST_INTERIM} interim answers")
            self.headers = None  # type: ignore[assignment]  # else begin() believes that it has been called
            super().begin()
