"""Snippet for a Procfile."""

from __future__ import annotations

import shlex

from tuner.core.domain.rollout import Rollout, has_number
from tuner.reports.snippets.text import comment, comment_header, describe_limits, printable, with_number

#: honcho kills this long after the first process has ended, foreman after the signal to stop
_KILLED_AFTER_S = 5


def procfile(rollout: Rollout) -> str:
    """Return a line for the service, or one for each of its programs if they need their numbers.

    Raises:
        Unfit: a text has a line break or another control character.
    """
    several = rollout.n_programs > 1
    environment = {**rollout.environment, **(rollout.names if several else {})}
    assigned = [f"{name}={value}" for name, value in environment.items()]
    words = [*(["env", *assigned] if assigned else []), *rollout.command]
    words = [printable(word, "the command or its environment") for word in words]
    name = "web" if rollout.serves_http else "worker"
    if several and has_number(words):
        lines = [
            f"{name}_{n}: exec {shlex.join([with_number(word, str(n)) for word in words])}"
            for n in range(rollout.n_programs)
        ]
        how = [f"One line for each of the {rollout.n_programs} programs, because each needs its number."]
    else:
        lines = [f"{name}: exec {shlex.join(words)}"]
        how = [f"{rollout.n_programs} of them: honcho start -c {name}={rollout.n_programs}"] * several
    about = comment_header(rollout, *how, *_on_stop(rollout), *describe_limits(rollout))
    return comment(about) + "\n".join(lines) + "\n"


def _on_stop(rollout: Rollout) -> list[str]:
    said = []
    if rollout.stop_signal != "TERM":
        said.append(f"it is to be stopped by SIG{rollout.stop_signal}, and they send SIGTERM")
    if rollout.stop_wait_s > _KILLED_AFTER_S:
        said.append(
            f"it had {rollout.stop_wait_whole_s} s to stop, and they kill {_KILLED_AFTER_S} s after the"
            " signal, or after the first one ended"
        )
    if not rollout.stop_as_group:
        said.append("its first process alone got the signal, and they send it to the whole group")
    return [f"Of honcho and foreman mind: {'; '.join(said)}."] if said else []
