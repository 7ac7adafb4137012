from __future__ import annotations

import pytest

from tuner.core.errors import ConfigError
from tuner.core.scheduler_address import parse_scheduler


@pytest.mark.parametrize(
    ("text", "has_certs", "read"),
    [
        ("tls://staging-1:8786", True, "tls://staging-1:8786"),
        ("staging-1:8786", True, "tls://staging-1:8786"),
        ("tcp://127.0.0.1:8786", False, "tcp://127.0.0.1:8786"),
        ("localhost:8786", False, "tcp://127.0.0.1:8786"),
        ("tls://[::1]:8786", True, "tls://[::1]:8786"),
    ],
)
def test_an_address_is_read_as_people_write_it(text: str, has_certs: bool, read: str) -> None:
    assert str(parse_scheduler(text, has_certs=has_certs, is_forced=False)) == read


@pytest.mark.parametrize(
    ("text", "has_certs", "said"),
    [
        ("tcp://staging-1:8786", False, "tcp://staging-1:8786 is open to others"),
        ("10.0.0.7:8786", False, "tcp://10.0.0.7:8786 is open to others"),
        ("tls://staging-1:8786", False, "tls://staging-1:8786 needs certificates"),
        ("tcp://staging-1:8786", True, "tcp://staging-1:8786 is not encrypted, and --certs is given"),
        ("http://staging-1:8786", False, "'http://staging-1:8786' is no address of a scheduler"),
        ("tcp://8786", False, "'tcp://8786' names no host, or no port"),
        ("staging-1", False, "'staging-1' names no host, or no port"),
        ("tcp://localhost:x", False, "'localhost:x' has no port"),
    ],
)
def test_what_cannot_be_used_or_is_open_is_refused(text: str, has_certs: bool, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_scheduler(text, has_certs=has_certs, is_forced=False)

    assert refused.value.problem == said
    assert refused.value.hint


def test_who_insists_may_have_it_open() -> None:
    found = parse_scheduler("tcp://10.0.0.7:8786", has_certs=False, is_forced=True)

    assert str(found) == "tcp://10.0.0.7:8786"
