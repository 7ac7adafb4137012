"""Which texts of a config name a broker or a database on this box, and who listens there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.text.address import BackendAddress, backend_addresses, server_urls


@pytest.mark.parametrize(
    ("word", "address"),
    [
        ("redis://127.0.0.1:6380/0", "127.0.0.1:6380"),
        ("redis://:secret@localhost/0", "localhost:6379"),
        ("rediss://[::1]", "[::1]:6379"),
        ("--broker=amqp://guest:guest@127.0.0.1//", "127.0.0.1:5672"),
        ("postgresql+psycopg://127.0.0.2/jobs", "127.0.0.2:5432"),
        ("postgresql:///jobs?host=/run/postgresql", "/run/postgresql/.s.PGSQL.5432"),
        ("unix:///run/redis.sock?db=0", "/run/redis.sock"),
        ("redis+socket:///run/my%20redis.sock", "/run/my redis.sock"),
        ("REDIS://LOCALHOST:1\n", "localhost:1"),
        ("redis:///1", "localhost:6379"),
        ("amqp://", "localhost:5672"),
        ("amqp://guest:guest@:5673//", "localhost:5673"),
        ("postgresql://me@%2Fvar%2Frun%2FPG/jobs", "/var/run/PG/.s.PGSQL.5432"),
        ("postgresql://%2Frun%2Fpg:5433/jobs", "/run/pg/.s.PGSQL.5433"),
        ("postgresql:///jobs?host=/run/pg&port=5433", "/run/pg/.s.PGSQL.5433"),
    ],
)
def test_a_url_of_this_box_is_an_address(word: str, address: str) -> None:
    assert [str(one) for one in backend_addresses([word, word])] == [address]


@pytest.mark.parametrize(
    ("word", "addresses"),
    [
        ("redis://127.0.0.1:1/0;redis://127.0.0.1:2/0", ["127.0.0.1:1", "127.0.0.1:2"]),
        ("--broker=amqp://a:b@elsewhere//;amqp://a:b@127.0.0.1//", ["127.0.0.1:5672"]),
        (
            "postgresql://me:x,y@127.0.0.1:5433,elsewhere,localhost/jobs?target=any",
            ["127.0.0.1:5433", "localhost:5432"],
        ),
        (
            "mongodb://127.0.0.1:1,127.0.0.1:2,127.0.0.1/?replicaSet=a",
            ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:27017"],
        ),
        ("redis://127.0.0.1/0?name=a;b", ["127.0.0.1:6379"]),
    ],
)
def test_a_text_may_name_several_servers(word: str, addresses: list[str]) -> None:
    assert [str(one) for one in backend_addresses([word])] == addresses


@pytest.mark.parametrize(
    "word",
    [
        "redis://10.0.0.7:6379",
        "redis://broker.example/0",
        "http://127.0.0.1:8000/",
        "sqlite:////var/lib/jobs.db",
        "postgresql:///jobs",
        "unix://redis.sock",
        "redis://127.0.0.1:port",
        "amqp://[127.0.0.1",
        "see redis://127.0.0.1",
        "--broker",
        "",
    ],
)
def test_what_lies_elsewhere_or_is_no_backend_is_none(word: str) -> None:
    assert backend_addresses([word]) == ()


def test_a_server_whose_host_or_port_a_layout_fills_in_is_not_known_yet() -> None:
    words = ["redis://r{process}:6379", "redis://127.0.0.1:{port}", "amqp://broker.example/{process}"]

    assert [one.host for one in server_urls(words)] == ["broker.example"]


@given(st.lists(st.one_of(st.text(), st.text().map("redis://".__add__), st.text().map("unix:///".__add__))))
def test_no_text_is_too_strange_to_look_at(words: list[str]) -> None:
    for address in backend_addresses(words):
        assert bool(address.path) != bool(address.port)


@pytest.mark.parametrize(
    ("host", "ip", "there"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "::", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.1", "10.0.0.7", False),
        ("localhost", "::1", True),
        ("localhost", "127.0.0.1", True),
        ("localhost", "10.0.0.7", False),
    ],
)
def test_who_listens_there_is_known_by_address_and_port(host: str, ip: str, there: bool) -> None:
    address = BackendAddress(host, 6379)

    assert address.is_at(ip, 6379) is there
    assert not address.is_at(ip, 6380)
