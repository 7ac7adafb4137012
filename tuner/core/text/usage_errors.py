"""Options that a program rejects, from its output: in the words of argparse, click, getopt and others."""

from __future__ import annotations

import re

#: exit statuses of a program that rejects an option: 2 for most parsers; uWSGI and waitress use 1
_STATUSES = ("exit status 2", "exit status 1")
_OPTION = r"(?P<quote>['\"`]?)(?P<option>-{1,2}[A-Za-z][\w.-]*)"
#: a whole line of the output, so that no sentence about options in an application's log is one
_REJECTED = re.compile(
    r"^(?:[\w./ -]*: )?(?:error: )?"
    r"(?:unrecogni[sz]ed (?:arguments?|options?):?|no such option:?|unknown (?:option|flag|argument):?"
    r"|unexpected argument|option(?= -\S+ not recognized$))"
    rf" {_OPTION}",
    re.MULTILINE | re.IGNORECASE,
)


def rejected_option(how: str, output: str) -> str | None:
    """Return the option that a program does not know; None: it ended for another reason.

    A value that it rejects, such as a port in use, is another reason: another layout or a later start may
    succeed.

    Args:
        how: how it ended ("exit status 2").
        output: its output since its start.
    """
    if not any(re.match(rf"{status}\b", how) for status in _STATUSES):
        return None
    found = _REJECTED.search(output)
    return None if found is None else found["option"].rstrip(".")
