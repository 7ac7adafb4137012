"""Snippet for systemd: a drop-in for a unit."""

from __future__ import annotations

from tuner.core.domain.rollout import PROCESS, Rollout
from tuner.reports.snippets.text import comment, comment_command, comment_header, overriding, slug

#: setrlimit resources for which systemd has a key
_LIMITS = {
    *("as", "core", "cpu", "data", "fsize", "memlock", "msgqueue", "nice", "nofile", "nproc"),
    *("rss", "rtprio", "rttime", "sigpending", "stack"),
}


def systemd(rollout: Rollout) -> str:
    """Return the drop-in, for a unit with instances if the service has several programs."""
    name = slug(rollout.service)
    several = rollout.n_programs > 1
    unit = f"{name}@.service" if several else f"{name}.service"
    environment = {**rollout.environment, **(rollout.names if several else {})}
    lines = ["[Service]", *(f"Environment={_quote(f'{n}={v}')}" for n, v in environment.items())]
    if rollout.is_command_needed:
        words = [_quote(word.replace("$", "$$")) for word in rollout.command]
        lines += ["ExecStart=", f"ExecStart={' '.join(words)}"]
    lines += [
        f"KillSignal=SIG{rollout.stop_signal}",
        f"KillMode={'control-group' if rollout.stop_as_group else 'mixed'}",
        f"TimeoutStopSec={rollout.stop_wait_whole_s}",
        *(f"Limit{limit.upper()}={value}" for limit, value in rollout.limits.items() if limit in _LIMITS),
    ]
    about = comment_header(
        rollout,
        f"As /etc/systemd/system/{unit}.d/50-tuner.conf, in addition to your {unit}; then systemctl"
        " daemon-reload, and restart it.",
        *(_instances(name, rollout.n_programs) if several else []),
        *_on_command(rollout),
    )
    return comment(about) + "\n".join(lines) + "\n"


def _instances(name: str, n_programs: int) -> list[str]:
    return [
        f"{n_programs} instances of that unit, by their numbers (%i is one's own): systemctl enable --now"
        f" {name}@{{0..{n_programs - 1}}}"
    ]


def _on_command(rollout: Rollout) -> list[str]:
    if rollout.is_command_needed:
        program = rollout.command[0]
        named = f"Write the whole path of {program}, unless systemd finds it in /usr/bin."
        return [] if program.startswith("/") else [named]
    return [
        f"Your ExecStart= stays, and was in the study: {comment_command(rollout.command)}",
        *overriding(rollout, "these variables"),
        "An EnvironmentFile= of the unit overrides these variables, too.",
    ]


def _quote(text: str) -> str:
    """Return *text* in double quotes with C escapes; ``%`` is escaped, because it begins specifiers such
    as ``%i``.
    """
    return f'"{"".join(map(_character, text))}"'


def _character(character: str) -> str:
    if character == PROCESS:
        return "%i"
    if character == "%":
        return "%%"
    if character in '\\"':
        return f"\\{character}"
    if character.isprintable():
        return character
    number = ord(character)
    if number <= 0x7F:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
