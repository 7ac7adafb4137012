"""Snippets: ready-to-apply settings of a layout as text, one file per format; tuner applies nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from tuner.core.domain.rollout import Rollout
from tuner.core.errors import ConfigError
from tuner.reports.snippets.ansible import ansible
from tuner.reports.snippets.compose import compose
from tuner.reports.snippets.env import env
from tuner.reports.snippets.gunicorn import gunicorn
from tuner.reports.snippets.kubernetes import kubernetes
from tuner.reports.snippets.procfile import procfile
from tuner.reports.snippets.supervisor import supervisor
from tuner.reports.snippets.systemd import systemd
from tuner.reports.snippets.text import Unfit
from tuner.reports.snippets.uwsgi import uwsgi


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of snippet."""

    summary: str
    render: Callable[[Rollout], str]


KINDS: Mapping[str, Kind] = {
    "supervisor": Kind("a [program:x] section of supervisord", supervisor),
    "systemd": Kind("a drop-in for a unit", systemd),
    "kubernetes": Kind("a strategic merge patch for a Deployment", kubernetes),
    "compose": Kind("an override file of compose", compose),
    "gunicorn": Kind("gunicorn.conf.py", gunicorn),
    "uwsgi": Kind("uwsgi.ini", uwsgi),
    "procfile": Kind("lines of a Procfile (honcho, foreman, Heroku)", procfile),
    "env": Kind("a .env file", env),
    "ansible": Kind("variables of Ansible", ansible),
}


def snippet(kind: str, rollout: Rollout) -> str:
    """The snippet of *kind* (of `KINDS`), ending in a newline.

    Raises:
        ConfigError: this kind cannot hold the rollout; the hint names those that can.
    """
    try:
        return KINDS[kind].render(rollout)
    except Unfit as unfit:
        fitting = ", ".join(fitting_kinds(rollout))
        hint = f"These fit: {fitting}." if fitting else "No kind fits."
        raise ConfigError(f"--snippet {kind}: {unfit.problem}", hint=hint) from unfit


def fitting_kinds(rollout: Rollout) -> list[str]:
    """Return the kinds that can hold *rollout*."""
    return [name for name, kind in KINDS.items() if _fits(kind, rollout)]


def check_kind(name: str) -> None:
    """Check that *name* is a kind.

    Raises:
        ConfigError: it is not; the error names the most similar one.
    """
    if name in KINDS:
        return
    near = get_close_matches(name, KINDS, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Kinds are {', '.join(KINDS)}."
    raise ConfigError(f"--snippet: no such kind: {name!r}", hint=hint)


def list_kinds() -> str:
    """Return the kinds, a line each."""
    width = max(map(len, KINDS))
    return "\n".join(f"{name:<{width}}  {kind.summary}" for name, kind in KINDS.items())


def _fits(kind: Kind, rollout: Rollout) -> bool:
    try:
        kind.render(rollout)
    except Unfit:
        return False
    return True
