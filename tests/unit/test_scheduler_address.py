from __future__ import annotations

import pytest

from tuner.core.errors import ConfigError
from tuner.core.text.address import parse_scheduler

from ..wording import key_of, wording


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
        ("tcp://staging-1:8786", False, wording("fleet.open-to-others", address="tcp://staging-1:8786")),
        ("10.0.0.7:8786", False, wording("fleet.open-to-others", address="tcp://10.0.0.7:8786")),
        ("tls://staging-1:8786", False, wording("fleet.needs-certificates", address="tls://staging-1:8786")),
        ("tcp://staging-1:8786", True, wording("fleet.not-encrypted", address="tcp://staging-1:8786")),
        ("http://staging-1:8786", False, wording("fleet.no-address", address="http://staging-1:8786")),
        ("tcp://8786", False, wording("fleet.no-host-or-port", address="tcp://8786")),
        ("staging-1", False, wording("fleet.no-host-or-port", address="staging-1")),
        ("tcp://localhost:x", False, wording("fleet.no-port")),
    ],
    ids=key_of,
)
def test_what_cannot_be_used_or_is_open_is_refused(text: str, has_certs: bool, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_scheduler(text, has_certs=has_certs, is_forced=False)

    assert refused.value.problem == said
    assert refused.value.hint


def test_who_insists_may_have_it_open() -> None:
    found = parse_scheduler("tcp://10.0.0.7:8786", has_certs=False, is_forced=True)

    assert str(found) == "tcp://10.0.0.7:8786"
