"""Services whose workers are started by a master: gunicorn's arbiter, the main process of Celery's pool."""

from __future__ import annotations

from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.text.stored_config import parse_stored_service


def has_master(config: str, layout: Layout) -> bool:
    """Whether a program that is no worker runs beside those of *layout*, by a study's settings as JSON."""
    service = parse_stored_service(config)
    if not service:
        return False
    asked: dict[str, Any] = (service.get("variants") or {}).get(layout.variant) or {}
    programs = asked.get("programs") or service.get("programs")
    workers = asked.get("workers") or service.get("workers")
    if workers is None:
        return bool(programs == "one")
    return workers in ("children", "pools") or (workers == "children-if-several" and layout.processes > 1)
