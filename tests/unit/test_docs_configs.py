"""Every config that a page shows is one that tuner takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tuner.config.load import load_settings

DOCS = Path(__file__).resolve().parents[2] / "docs"
_CONFIG = re.compile(r"^```yaml\n((?:service|study):\n.*?)^```", re.M | re.S)
EXAMPLES = [
    pytest.param(text, id=f"{page.stem}-{n}")
    for page in sorted(DOCS.glob("*.md"))
    for n, text in enumerate(_CONFIG.findall(page.read_text(encoding="utf-8")))
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 1


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_is_a_config(tmp_path: Path, text: str) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(text, encoding="utf-8")

    assert load_settings(path, {}).service.name
