"""The words that options take, for TAB: see `tuner.cli.completion`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import typer

MOST_LAYOUTS = 1000

Completer = Callable[[str], list[str]]


def one_of(*words: str) -> Completer:
    """Completes to one of *words*."""

    def complete(incomplete: str) -> list[str]:
        return _beginning(words, incomplete)

    return complete


def layouts_of_study(ctx: typer.Context, incomplete: str) -> list[str]:
    """The layouts of the study that the line names, in its order; none where it names none."""
    from tuner.bootstrap import stores

    named = _named_study(ctx)
    if named is None:
        return []
    with stores.open_store(named, read_only=True) as store:
        return _beginning(map(str, store.study().layouts[:MOST_LAYOUTS]), incomplete)


def boxes_of_study(ctx: typer.Context, incomplete: str) -> list[str]:
    """The boxes that the study on the line was measured on; none where it names none."""
    from tuner.bootstrap import stores

    named = _named_study(ctx)
    if named is None:
        return []
    with stores.open_store(named, read_only=True) as store:
        boxes = dict.fromkeys(launch.box for _, launch in store.launches())
    return _beginning(boxes, incomplete)


def _named_study(ctx: typer.Context) -> Path | None:
    # the words before; click gives no values while an option lacks its own
    return next((path for path in map(Path, ctx.obj or ()) if path.is_file()), None)


def formats(incomplete: str) -> list[str]:
    """What a ranking can be exported to."""
    from tuner.reports.text.formats import table_formats

    return _beginning(sorted(["json", *table_formats()]), incomplete)


def services(incomplete: str) -> list[str]:
    """The services that tuner knows."""
    from tuner.bootstrap.configs import configs

    return _beginning([str(one["service"]) for one in configs.describe_services()], incomplete)


def words_of_services(ctx: typer.Context, incomplete: str) -> list[str]:
    """``show``, then a service."""
    return services(incomplete) if ctx.obj else _beginning(["show"], incomplete)


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
