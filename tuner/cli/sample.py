"""tuner sample: record messages of a real queue, from which the feeder makes new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MOST_MESSAGES = 100_000


def sample(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="New file for the recorded messages."),
    ],
    url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            show_default=False,
            help=(
                "URL of the broker: Redis, or RabbitMQ with amqp://HOST (default: redis://127.0.0.1:6379/0)."
            ),
        ),
    ] = "redis://127.0.0.1:6379/0",
    form: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=(
                "Library that writes the messages: celery, dramatiq, rq, huey, taskiq, arq, saq or "
                "streaq (default: tuner detects the library). If another library writes the "
                "messages, set --form to the type of its queue in Redis: `list` or `stream`."
            ),
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the queue (default: the library's default queue).",
        ),
    ] = None,
    n: Annotated[
        int,
        typer.Option(
            "-n",
            metavar="N",
            min=1,
            max=MOST_MESSAGES,
            show_default=False,
            help="Largest number of messages to record (default: 100).",
        ),
    ] = 100,
) -> None:
    """Record messages that wait in a queue, and leave them in the queue.

    tuner copies messages evenly from the whole queue. From RabbitMQ, tuner takes only the first 1000
    messages, and puts them back marked as redelivered. With `feeder: {kind: queue}` in the config, a study
    sends copies of the messages to the service. The file contains all data of the messages, so only you can
    read it.

    Example: tuner sample --url redis://127.0.0.1:6379/0 --queue celery -n 100 -o sample.json
    """
    from tuner.bootstrap.parts import samples
    from tuner.config.feeders import check_form, check_form_at
    from tuner.config.request_fields import check_broker_url
    from tuner.core.errors import ConfigError
    from tuner.core.text.figures import pluralize

    try:
        check_broker_url(url)
    except ConfigError as error:
        raise ConfigError(f"--url: {error.problem}") from error  # the url itself may contain a password
    if form is not None:
        check_form_at(check_form(form), url)
    found = samples.record_sample(url, form, queue, n, output)
    for reason, n_left_out in found.left_out.items():
        typer.echo(f"left out: {pluralize(n_left_out, 'message')}, each {reason}", err=True)
    messages = pluralize(found.n_messages, "message")
    typer.echo(f"{messages} of {found.form} from the queue {found.queue} in {output}")
    typer.echo("The file contains data of your users; only you can read it (mode 0600).")
    typer.echo(
        f"The queue {found.queue} still contains these messages. Empty the queue before a study.", err=True
    )
