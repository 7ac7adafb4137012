"""Snippet for supervisord: a [program:x] section."""

from __future__ import annotations

import re
import shlex

from tuner.core.domain.rollout import PROCESS, Rollout
from tuner.reports.snippets.text import Unfit, comment, comment_header, describe_limits, printable, slug

_NUMBER = "%(process_num)d"
#: positions where supervisor begins a comment, even within quotes
_COMMENT = re.compile(r"(?<=\s)(?=[;#])")


def supervisor(rollout: Rollout) -> str:
    """Return the complete section.

    Raises:
        Unfit: a text has a line break or another control character, or the directory has a comment sign.
    """
    several = rollout.n_programs > 1
    environment = {**rollout.environment, **(rollout.names if several else {})}
    in_line = {name: value for name, value in environment.items() if _needs_env(value)}
    words = [*rollout.command]
    if in_line:
        words = ["/usr/bin/env", *(f"{name}={value}" for name, value in in_line.items()), *words]
    variables = [f"{name}={_value(value)}" for name, value in environment.items() if name not in in_line]
    number = [f"numprocs={rollout.n_programs}", "process_name=%(program_name)s_%(process_num)02d"]
    lines = [
        f"[program:{slug(rollout.service)}]",
        f"command={_expand(_COMMENT.sub(_REOPENED, shlex.join(_printable(words))))}",
        *(number if several else []),
        *([f"directory={_path(rollout.directory)}"] if rollout.directory else []),
        *([f"user={printable(rollout.user, 'user')}"] if rollout.user else []),
        *([f"environment={','.join(variables)}"] if variables else []),
        "autorestart=true",
        f"stopsignal={rollout.stop_signal}",
        f"stopwaitsecs={rollout.stop_wait_whole_s}",
        f"stopasgroup={'true' if rollout.stop_as_group else 'false'}",
        "killasgroup=true",
    ]
    about = comment_header(
        rollout,
        "As a file that supervisord includes; then supervisorctl update. A program that does not lie on"
        " supervisord's PATH needs its whole path.",
        *(
            []
            if rollout.directory
            else ["Set directory= to the folder in which the command finds its files."]
        ),
        *describe_limits(rollout),
    )
    return comment(about, ";") + "\n".join(lines) + "\n"


_REOPENED = "''"  #: ends a quoted string and begins a new one


def _printable(words: list[str]) -> list[str]:
    return [printable(word, "the command or its environment") for word in words]


def _expand(text: str) -> str:
    """Return *text* with ``%`` escaped, because it begins supervisord's expressions such as the number."""
    return text.replace("%", "%%").replace(PROCESS, _NUMBER)


def _path(path: str) -> str:
    text = printable(path, "directory")
    if _COMMENT.search(text):
        raise Unfit(f"directory {text} would begin a comment there")
    return _expand(text)


def _needs_env(value: str) -> bool:
    """Return whether ``environment=`` cannot hold *value*: it has no escapes, and strips quotes at the
    ends.
    """
    return (
        ('"' in value and "'" in value)
        or value[:1] in ("'", '"')
        or value[-1:] in ("'", '"')
        or _COMMENT.search(value) is not None
    )


def _value(value: str) -> str:
    mark = "'" if '"' in value else '"'
    return f"{mark}{_expand(printable(value, 'the environment'))}{mark}"
