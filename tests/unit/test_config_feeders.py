from __future__ import annotations

from pathlib import Path

import pytest

from tuner.adapters.feeders.http import HttpFeederSettings
from tuner.config.load import canonical_json, load_settings, settings_of_study
from tuner.config.settings import ScriptSettings, Settings
from tuner.core.domain.load import EVEN, Pace, Share, WithinP95, stored_rate
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.errors import ConfigError
from tuner.core.text.safe_text import HIDDEN

from ..raising import raises
from ..wording import key_of, wording

URL = "http://127.0.0.1:8000/search?q=tea"


def load(folder: Path, feeder: str) -> Settings:
    path = folder / "s.yaml"
    path.write_text(f"service:\n  kind: script\n  name: web\n  command: [run]\n  feeder: {feeder}\n")
    return load_settings(path, {})


def feeder_of(settings: Settings) -> HttpFeederSettings:
    assert isinstance(settings.service, ScriptSettings)
    assert isinstance(settings.service.feeder, HttpFeederSettings)
    return settings.service.feeder


def test_a_url_is_enough_for_a_closed_loop(tmp_path: Path) -> None:
    feeder = feeder_of(load(tmp_path, f"{{kind: http, url: '{URL}'}}"))

    assert (feeder.target.host, feeder.target.port, feeder.target.target) == (
        "127.0.0.1",
        8000,
        "/search?q=tea",
    )
    assert (feeder.method, feeder.clients, feeder.rate, feeder.timeout) == ("GET", None, None, 30.0)
    assert feeder.how_connected == EVEN


def test_times_of_less_than_a_millisecond_are_kept_as_they_were_requested(tmp_path: Path) -> None:
    asked = load(tmp_path, f"{{kind: http, url: '{URL}', rate: p95=1.5ms, timeout: 0.4ms}}")

    kept = canonical_json(asked)

    assert feeder_of(settings_of_study(kept, "s.tuner.db")) == feeder_of(asked)
    assert stored_rate(StoredConfig(kept)) == WithinP95(0.0015)


def test_what_a_study_keeps_of_its_traffic_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "body").write_text("{}")
    settings = load(
        tmp_path,
        f"{{kind: http, url: '{URL}', method: POST, headers: {{Accept: text/html}}, body_file: body,"
        " rate: 200, arrivals: even, max_outstanding: 50, timeout: 2s, wait: 10s, seed: 3}",
    )

    again = settings_of_study(canonical_json(settings), "study")

    assert feeder_of(again) == feeder_of(settings)
    assert feeder_of(again).body_file == tmp_path / "body"


@pytest.mark.parametrize(
    ("rate", "per_s", "pace"),
    [("200", 200.0, None), ("2.5", 2.5, None), ("70%", None, Share(0.7)), ("p95=1s", None, WithinP95(1.0))],
)
def test_a_rate_is_a_number_or_what_it_follows_from_and_a_study_keeps_it(
    tmp_path: Path, rate: str, per_s: float | None, pace: Pace | None
) -> None:
    settings = load(tmp_path, f"{{kind: http, url: '{URL}', rate: {rate}}}")

    for feeder in (feeder_of(settings), feeder_of(settings_of_study(canonical_json(settings), "study"))):
        assert (feeder.rate_per_s, feeder.pace) == (per_s, pace)
    assert stored_rate(StoredConfig(canonical_json(settings))) == (pace or per_s)


def test_the_closed_loop_before_a_share_may_be_reported_its_clients(tmp_path: Path) -> None:
    feeder = feeder_of(load(tmp_path, f"{{kind: http, url: '{URL}', clients: 9, rate: 70%}}"))

    assert (feeder.clients, feeder.pace) == (9, Share(0.7))


def test_a_study_does_not_keep_what_a_user_is_known_by(tmp_path: Path) -> None:
    headers = "{Authorization: Bearer abc123, Cookie: session=xyz, Accept: text/html}"
    settings = load(tmp_path, f"{{kind: http, url: '{URL}', headers: {headers}}}")

    kept = canonical_json(settings)

    assert "abc123" not in kept
    assert "xyz" not in kept
    assert kept.count(HIDDEN) == 2


def test_a_probe_of_the_generator_needs_a_generator(tmp_path: Path) -> None:
    with raises(
        ConfigError, "s.yaml:6:10: service.probe: " + wording("config.generator-counts-answers-and-feeder-is")
    ):
        load(tmp_path, "{kind: none}\n  probe: {kind: generator}")

    kept = load(tmp_path, f"{{kind: http, url: '{URL}'}}\n  probe: {{kind: generator}}")
    assert isinstance(kept.service, ScriptSettings)
    assert kept.service.probe.kind == "generator"


def test_latency_can_be_limited_where_requests_are_sent_and_nowhere_else(tmp_path: Path) -> None:
    limited = load(tmp_path, f"{{kind: http, url: '{URL}'}}\nstudy: {{max_p95: 200ms}}")
    assert limited.study.limits == {"p95_s": 0.2}

    with raises(ConfigError, "s.yaml:6:18: study.max_p95: " + wording("config.no-latency")):
        load(tmp_path, "{kind: none}\nstudy: {max_p95: 200ms}")


@pytest.mark.parametrize(
    ("feeder", "place", "what"),
    [
        ("{kind: http}", "5:3: service.feeder.url", wording("config.missing")),
        ("{kind: http, url: '127.0.0.1:8000'}", "5:29: service.feeder.url", wording("config.no-http-url")),
        (
            "{kind: http, url: 'http://h:99999/'}",
            "5:29: service.feeder.url",
            wording("config.port-out-of-range"),
        ),
        ("{kind: http, url: 'http://h:port/'}", "5:29: service.feeder.url", wording("config.port-no-number")),
        ("{kind: http, url: 'http://h/a b'}", "5:29: service.feeder.url", wording("config.no-url")),
        (
            "{kind: http, url: 'http://me:pw@h/'}",
            "5:29: service.feeder.url",
            wording("config.user-or-fragment"),
        ),
        (
            "{kind: http, url: 'http://h/', method: get}",
            "5:50: service.feeder.method",
            wording("config.no-method"),
        ),
        (
            "{kind: http, url: 'http://h/', headers: {A b: c}}",
            "5:51: service.feeder.headers",
            wording("config.no-name-of-header"),
        ),
        (
            "{kind: http, url: 'http://h/', headers: {Content-Length: '3'}}",
            "5:51: service.feeder.headers",
            wording("config.header-of-tuner", name="Content-Length"),
        ),
        (
            '{kind: http, url: "http://h/", headers: {A: "b\\nc"}}',
            "5:51: service.feeder.headers",
            wording("config.cannot-be-sent"),
        ),
        (
            "{kind: http, url: 'http://h/', body_file: gone}",
            "5:53: service.feeder.body_file",
            wording("config.no-such-file"),
        ),
        (
            "{kind: http, url: 'http://h/', rate: 0}",
            "5:48: service.feeder.rate",
            wording("config.rate-out-of-range"),
        ),
        (
            "{kind: http, url: 'http://h/', rate: yes}",
            "5:48: service.feeder.rate",
            wording("config.no-rate", text="yes"),
        ),
        (
            "{kind: http, url: 'http://h/', rate: 100%}",
            "5:48: service.feeder.rate",
            wording("config.at-whole-capacity"),
        ),
        (
            "{kind: http, url: 'http://h/', rate: p95=2}",
            "5:48: service.feeder.rate",
            wording("config.no-unit", text=2),
        ),
        (
            "{kind: http, url: 'http://h/', arrivals: even}",
            "5:52: service.feeder.arrivals",
            wording("config.without-rate"),
        ),
        (
            "{kind: http, url: 'http://h/', rate: 9, arrivals: evn}",
            "5:61: service.feeder.arrivals",
            wording("config.did-you-mean", meant="even"),
        ),
        (
            "{kind: http, url: 'http://h/', clients: 4, rate: 9}",
            "5:60: service.feeder.rate",
            wording("config.connections-or-rate"),
        ),
        (
            "{kind: http, url: 'http://h/', body: a, body_file: s.yaml}",
            "5:11: service.feeder",
            wording("config.body-or-file"),
        ),
        (
            "{kind: http, url: 'http://h/', body: a, requests: s.yaml}",
            "5:11: service.feeder",
            wording("config.requests-bring-their-own"),
        ),
    ],
    ids=key_of,
)
def test_what_is_wrong_with_traffic_is_reported_with_its_place(
    tmp_path: Path, feeder: str, place: str, what: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, feeder)

    (problem,) = caught.value.problem.splitlines()
    assert problem.startswith(f"{tmp_path}/s.yaml:{place}")
    assert what in problem


REDIS = "form: celery, url: 'redis://127.0.0.1/0', queue: mails, sample: s.json"
RABBIT = "form: celery, url: 'amqp://127.0.0.1//', queue: mails, sample: s.json"


@pytest.mark.parametrize("queue", [REDIS, RABBIT])
def test_a_queue_and_a_sample_are_enough_to_feed_it(tmp_path: Path, queue: str) -> None:
    (tmp_path / "s.json").touch()
    settings = load(tmp_path, f"{{kind: queue, {queue}}}\n  probe: {{kind: queue}}")

    again = settings_of_study(canonical_json(settings), "study")

    assert again == settings
    assert isinstance(settings.service, ScriptSettings)
    feeder = settings.service.feeder
    assert feeder.kind == "queue"
    assert (feeder.depth, feeder.sample) == ("auto", tmp_path / "s.json")


def test_a_probe_of_the_queue_needs_a_feeder_of_it(tmp_path: Path) -> None:
    with raises(ConfigError, "service.probe: " + wording("config.queue-counts-what-is-fed")):
        load(tmp_path, "{kind: none}\n  probe: {kind: queue}")


@pytest.mark.parametrize(
    ("feeder", "place", "what"),
    [
        ("{kind: queue}", "service.feeder.form", wording("config.missing")),
        (
            f"{{kind: queue, {REDIS.replace('celery', 'clery')}}}",
            "feeder.form",
            wording("config.did-you-mean", meant="celery"),
        ),
        (
            f"{{kind: queue, {REDIS.replace('redis:', 'http:')}}}",
            "feeder.url",
            wording("config.queue-url"),
        ),
        (
            f"{{kind: queue, {REDIS.replace('redis:', 'amqps:')}}}",
            "feeder.url",
            wording("config.rabbitmq-url"),
        ),
        (f"{{kind: queue, {RABBIT.replace('//', '//u@v@')}}}", "feeder.url", wording("config.rabbitmq-url")),
        (
            f"{{kind: queue, {RABBIT.replace('celery', 'rq')}}}",
            "feeder.url",
            wording("config.rq-known-rabbitmq-only"),
        ),
        (
            f"{{kind: queue, {REDIS.replace('s.json', 'gone')}}}",
            "feeder.sample",
            wording("config.no-such-file"),
        ),
        (f"{{kind: queue, {REDIS}, depth: full}}", "feeder.depth", wording("config.depth-of-queue")),
        (f"{{kind: queue, {REDIS}, depth: 0}}", "feeder.depth", wording("config.depth-of-queue")),
        (f"{{kind: queue, {REDIS}, depth: yes}}", "feeder.depth", wording("config.depth-of-queue")),
    ],
    ids=key_of,
)
def test_what_is_wrong_with_a_fed_queue_is_reported_with_its_place(
    tmp_path: Path, feeder: str, place: str, what: str
) -> None:
    (tmp_path / "s.json").touch()
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, feeder)

    assert f"{place}: " in caught.value.problem
    assert what in caught.value.problem


@pytest.mark.parametrize(("form", "tells"), [("dramatiq", True), ("rq", True), ("celery", False)])
def test_a_brake_for_errors_needs_a_form_that_tells_them(tmp_path: Path, form: str, tells: bool) -> None:
    (tmp_path / "s.json").touch()
    feeder = (
        f"{{kind: queue, {REDIS.replace('celery', form)}}}\n  probe: {{kind: queue}}\nbrake: {{errors: 5%}}"
    )

    if tells:
        assert load(tmp_path, feeder).brake is not None
    else:
        with raises(ConfigError, wording("config.queue-cannot-count-failed")):
            load(tmp_path, feeder)
