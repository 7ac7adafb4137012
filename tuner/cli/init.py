"""tuner init: a commented config for a command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.shared.options import FILE, SERVICE, STDOUT, Service, ServiceCommand, ServiceSettings
from tuner.cli.shared.output import echo_err
from tuner.core.errors import ConfigError
from tuner.core.text.safe_text import redact


def init(
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            rich_help_panel=FILE,
            help="New file for the config, or - to print the config (default: -).",
        ),
    ] = None,
    service: Service = None,
    settings: ServiceSettings = None,
    command: ServiceCommand = None,
    from_file: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE[:NAME]",
            rich_help_panel=SERVICE,
            help=(
                "Read the command from a Procfile, compose file, systemd unit, supervisord.conf or "
                "Dockerfile."
            ),
        ),
    ] = None,
) -> int:
    """Write a commented config for the command of a service, without starting it.

    Example: tuner init -o study.yaml -- gunicorn app:app --bind 127.0.0.1:8000
    """
    from tuner.bootstrap import configs, start_files
    from tuner.cli.shared.option_parsing import command_words, service_options

    if command is None and from_file is None:
        raise ConfigError(
            "expected a command",
            hint="Example: tuner init -- gunicorn app:app, or tuner init --from Procfile",
        )
    if command is not None and from_file is not None:
        raise ConfigError(
            "--from reads the command, and there is one after --", hint="Leave one of them out."
        )
    options = service_options(service, settings, None)
    given = {str(place[1]): option.text for place, option in options.items() if place[1] != "kind"}
    is_secret = redact(given) != given
    if from_file is not None:
        folder = Path.cwd() if output in (None, STDOUT) else output.absolute().parent
        written = start_files.config_from_file(from_file, service, given, folder)
        echo_err("\n".join([f"From {written.origin}:", *(f"- {note}" for note in written.notes)]))
        text, is_secret = written.text, is_secret or written.is_secret
    else:
        words = command_words(command or "")
        text, is_secret = (
            configs.render_config_for(words, service, given),
            is_secret or redact(words) != words,
        )
    if output in (None, STDOUT):
        typer.echo(text, nl=False)
        return 0
    try:
        mode = 0o600 if is_secret else 0o666
        with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(
            f"{output} exists already, and is not overwritten", hint="Name another file with -o."
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {error.strerror}") from error
    kept = " (readable by you only, because it holds a secret)" if is_secret else ""
    sys.stderr.write(f"Written to {output}{kept}; measure with: tuner grid {output}\n")
    return 0
