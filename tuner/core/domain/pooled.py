"""Layouts whose second number is not threads that share a GIL.

A pool's is processes: 2x4 is two programs that have four workers each. An event loop's is threads that run no
Python: granian's 2x4 is two processes, each with one loop, and four threads of its part in Rust. Where the
workers of a server are threads (granian without a GIL), it has one process: 1x4 is four workers.
"""

from __future__ import annotations

from collections.abc import Collection

from tuner.core.domain.layout import Layout
from tuner.core.text.stored_config import parse_stored_service


def pooled_variants(config: str) -> frozenset[str]:
    """The variants of a study's service that are such pools, by its settings as JSON; "" is it as it is."""
    return _variants_with("pools", config)


def one_process_variants(config: str) -> frozenset[str]:
    """The same of those whose workers are threads of one process."""
    return _variants_with("threads", config)


def event_loop_variants(config: str) -> frozenset[str]:
    """Return the variants whose workers are event loops; *config* is as for `pooled_variants`."""
    service = parse_stored_service(config)
    own = service.get("event_loop") is True
    data = {"": own}
    for name, variant in (service.get("variants") or {}).items():
        asked = variant.get("event_loop")
        data[name] = own if asked is None else asked is True
    return frozenset(name for name, is_one in data.items() if is_one)


def shape_of(layout: Layout, pooled: Collection[str], loops: Collection[str] = ()) -> Layout:
    """Return how many processes *layout* has, and threads in each that share a GIL.

    Args:
        layout: of the study.
        pooled: variants that are pools.
        loops: variants whose processes are event loops.
    """
    if layout.variant in pooled:
        return layout.as_processes
    return layout.as_loops if layout.variant in loops and layout.has_threads else layout


def _variants_with(asked: str, config: str) -> frozenset[str]:
    service = parse_stored_service(config)
    own = service.get("workers")
    variants = service.get("variants") or {}
    data = {"": own, **{name: variant.get("workers") or own for name, variant in variants.items()}}
    return frozenset(name for name, workers in data.items() if workers == asked)
