"""What a config may say of who counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.adapters.probes.log import LogProbeSettings
from tuner.adapters.probes.sql import SqlProbeSettings
from tuner.config.load import canonical_json, load_settings, settings_of_study
from tuner.config.settings import ScriptSettings, Settings
from tuner.core.errors import ConfigError

from ..wording import key_of, start_of, wording


def load(folder: Path, probe: str, more: str = "") -> Settings:
    path = folder / "s.yaml"
    path.write_text(f"service:\n  kind: script\n  name: web\n  command: [run]\n  probe: {probe}\n{more}")
    return load_settings(path, {})


def script(settings: Settings) -> ScriptSettings:
    assert isinstance(settings.service, ScriptSettings)
    return settings.service


def said_of(folder: Path, probe: str, more: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, probe, more)
    return caught.value.problem.removeprefix(f"{folder}/s.yaml:")


def test_logs_are_the_programs_own_or_files_beside_the_config(tmp_path: Path) -> None:
    for said, files in {
        "": None,
        ", files: a.log": (tmp_path / "a.log",),
        ", files: [a.log, /b]": (tmp_path / "a.log", Path("/b")),
    }.items():
        settings = load(tmp_path, f"{{kind: log, pattern: done{said}}}")
        probe = script(settings).probe

        assert isinstance(probe, LogProbeSettings)
        assert probe.files == files
        assert settings_of_study(canonical_json(settings), "study") == settings


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        (
            "{kind: log, pattern: '(a'}",
            "service.probe.pattern: " + wording("config.no-regular-expression", why="missing )"),
        ),
        (
            "{kind: log, pattern: a, failed: '*'}",
            "service.probe.failed: " + wording("config.no-regular-expression", why="nothing to"),
        ),
        ("{kind: log, pattern: a, files: []}", "service.probe.files: " + wording("config.at-least-one")),
        ("{kind: log, pattern: a, files: .}", "service.probe.files: "),
        ("{kind: log, pattern: a, files: [b, b]}", "service.probe.files: " + wording("config.file-twice")),
        ("{kind: sql, url: 'sqlite:///x.db'}", "service.probe.query: " + wording("config.missing")),
        ("{kind: sql, url: 'sqlite:///.', query: q}", "service.probe.url: "),
        (
            "{kind: sql, url: 'mysql://h/d', query: q}",
            "service.probe.url: " + wording("config.should-be-sql"),
        ),
        (
            "{kind: sql, url: 'sqlite://x.db', query: q}",
            "service.probe.url: " + wording("config.should-be-sql"),
        ),
        (
            "{kind: sql, url: 'postgresql:/h', query: q}",
            "service.probe.url: " + wording("config.should-be-sql"),
        ),
        (
            "{kind: sql, url: 'postgresql://u:Pa@ss@h/d', query: q}",
            "service.probe.url: " + wording("config.should-be-sql"),
        ),
        (
            "{kind: sql, url: 'postgresql://u:Pa/ss@h/d', query: q}",
            "service.probe.url: " + wording("config.should-be-sql"),
        ),
    ],
    ids=key_of,
)
def test_what_cannot_be_read_or_asked_is_reported_with_its_place(
    tmp_path: Path, probe: str, said: str
) -> None:
    result = said_of(tmp_path, probe)

    assert said in result
    assert "Pa" not in result.removeprefix(said)


def test_a_file_of_sqlite_lies_beside_the_config_unless_its_path_is_whole(tmp_path: Path) -> None:
    for url, file in {
        "sqlite:///jobs.db": tmp_path / "jobs.db",
        "sqlite:////a/jobs.db": Path("/a/jobs.db"),
    }.items():
        settings = load(tmp_path, f"{{kind: sql, url: '{url}', query: select 1}}")
        probe = script(settings).probe

        assert isinstance(probe, SqlProbeSettings)
        assert probe.file == file
        assert settings_of_study(canonical_json(settings), "study") == settings


@pytest.mark.parametrize("url", ["postgresql://u:hunter2@h/d", "postgresql://h/d?user=u&password=hunter2"])
def test_a_study_does_not_keep_the_password_of_a_database(tmp_path: Path, url: str) -> None:
    settings = load(tmp_path, f"{{kind: sql, url: '{url}', query: select 1}}")
    kept = canonical_json(settings)

    assert "hunter2" not in kept
    assert "//<hidden>@h/d" in kept or "user=u&password=<hidden>" in kept


def test_what_probes_look_for_is_kept_whatever_it_looks_like(tmp_path: Path) -> None:
    sql = (
        "{kind: sql, url: 'sqlite:////a/jobs.db', query: select n from t where token='done',"
        " failed: select n from t where token='failed'}"
    )
    log = "{kind: log, pattern: 'password: set', failed: 'password: wrong'}"
    for first, second in ((sql, log), (log, sql)):
        settings = load(tmp_path, first, f"  cross_check: {second}\n")

        assert settings_of_study(canonical_json(settings), "study") == settings


SECOND = "  cross_check: {kind: log, pattern: done}\n"


def test_a_second_probe_is_of_any_kind_and_kept(tmp_path: Path) -> None:
    redis = "{kind: redis, url: 'redis://h', count: [{get: %s}]}"
    for first, second in [
        ("{kind: mmap-counter}", "{kind: log, pattern: done}"),
        (redis % "a", redis % "b"),
        ("{kind: log, pattern: a}", "{kind: log, pattern: b}"),
    ]:
        settings = load(tmp_path, first, f"  cross_check: {second}\n  cross_check_within: 5%\n")

        assert script(settings).cross_check is not None
        assert script(settings).cross_check_within == 0.05
        assert settings_of_study(canonical_json(settings), "study") == settings


def test_a_second_probe_may_be_the_one_that_tells_workers_where_statsd_is(tmp_path: Path) -> None:
    more = "  cross_check: {kind: statsd, name: a}\n  environment: {AT: '{TUNER_STATSD}'}\n"

    assert script(load(tmp_path, "{kind: log, pattern: a}", more)).probe_fields == ("TUNER_STATSD",)


@pytest.mark.parametrize(
    ("probe", "more", "said"),
    [
        (
            "{kind: statsd, name: a}",
            "  cross_check: {kind: statsd, name: b}\n",
            "6:16: service.cross_check: " + wording("config.one-probe-of-a-kind", kind="statsd"),
        ),
        (
            "{kind: mmap-counter}",
            "  cross_check: {kind: mmap-counter}\n",
            "6:16: service.cross_check: " + wording("config.one-probe-of-a-kind", kind="mmap-counter"),
        ),
        (
            "{kind: log, pattern: done}",
            SECOND,
            "6:16: service.cross_check: " + wording("config.same-as-probe"),
        ),
        (
            "{kind: log, pattern: done}",
            "  cross_check: {kind: generator}\n",
            "6:16: service.cross_check: " + wording("config.generator-counts-answers"),
        ),
        (
            "{kind: log, pattern: done}",
            "  cross_check_within: 2%\n",
            "6:23: service.cross_check_within: " + wording("config.without-cross-check"),
        ),
        (
            "{kind: statsd, name: a}",
            SECOND + "  cross_check_within: 60%\n",
            "7:23: service.cross_check_within: " + wording("config.less-than", most="0.5"),
        ),
    ],
    ids=key_of,
)
def test_a_second_probe_that_could_tell_nothing_is_refused(
    tmp_path: Path, probe: str, more: str, said: str
) -> None:
    assert said in start_of(said_of(tmp_path, probe, more))


@pytest.mark.parametrize(
    ("url", "is_valid"),
    [
        ("rediss://:pw@h:6380/1?ssl_cert_reqs=none", True),
        ("rediss://h?ssl_ca_certs=/etc/ca.pem&ssl_cert_reqs=required", True),
        ("unix://:pw@/run/redis.sock?db=2", True),
        ("redis://h/0?ssl_cert_reqs=none", False),  # without TLS
        ("rediss://h?ssl_cert_reqs=CERT_NONE", False),
        ("rediss://h?socket_timeout=3", False),
    ],
)
def test_a_url_of_redis_may_set_the_check_of_certificates(tmp_path: Path, url: str, is_valid: bool) -> None:
    text = f"{{kind: redis, url: '{url}', count: [{{llen: jobs}}]}}"
    if is_valid:
        assert load(tmp_path, text).service.probe.url == url
    else:
        with pytest.raises(ConfigError):
            load(tmp_path, text)
