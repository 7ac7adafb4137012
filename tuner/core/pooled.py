"""Variants whose workers are of another kind than one process each with the layout's threads.

Of pools the second number of a layout is processes: 2x4 is two programs that have a pool of four each. Where
the workers of a server are threads, it has one process: 1x4 is four workers.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from tuner.core.layout import Layout


def pooled_variants(config: str) -> frozenset[str]:
    """The variants of a study's service that are such pools, by its settings as JSON; "" is it as it is."""
    return _variants_with("pools", config)


def one_process_variants(config: str) -> frozenset[str]:
    """The same of those whose workers are threads of one process."""
    return _variants_with("threads", config)


def shape_of(layout: Layout, pooled: Collection[str]) -> Layout:
    """*layout* as the model takes it: how many processes, and threads that share a GIL."""
    return layout.as_processes if layout.variant in pooled else layout


def _variants_with(asked: str, config: str) -> frozenset[str]:
    service = json.loads(config).get("service") if config else None
    if not isinstance(service, dict):
        return frozenset()
    own = service.get("workers")
    variants = service.get("variants") or {}
    told = {"": own, **{name: variant.get("workers") or own for name, variant in variants.items()}}
    return frozenset(name for name, workers in told.items() if workers == asked)
