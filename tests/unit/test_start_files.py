"""Files by which other programs start services: what tuner reads in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tuner.bootstrap.start_files import kind_of, read_start_file
from tuner.config.start_files.dotenv import parse_dotenv, parse_environment_file
from tuner.config.start_files.started import Started, Variables
from tuner.core.errors import ConfigError

from ..raising import raises
from ..wording import key_of, wording


def started_by(
    path: Path, text: str, environment: Mapping[str, str] | None = None, name: str | None = None
) -> Started:
    """The only process, or the one called *name*."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    _, processes = read_start_file(path, environment or {})
    (one,) = [one for one in processes if name in (None, one.name)]
    return one


def unit(tmp_path: Path, *lines: str, name: str = "web.service") -> Started:
    return started_by(tmp_path / name, "\n".join(["[Service]", *lines]) + "\n")


def error_of(path: Path, text: str, name: str | None = None) -> ConfigError:
    """What is wrong with the file, or with the process called *name*."""
    try:
        one = started_by(path, text, name=name)
    except ConfigError as error:
        return error
    assert one.error is not None
    return one.error


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("Procfile", "web: a", "Procfile"),
        ("Procfile.dev", "", "Procfile"),
        ("Dockerfile.worker", "", "Dockerfile"),
        ("worker.dockerfile", "", "Dockerfile"),
        ("web.service", "", "unit of systemd"),
        ("docker-compose.override.yml", "", "compose file"),
        ("app.conf", "[unix_http_server]\n\n[program:web]\ncommand=a\n", "config of supervisord"),
        ("app.conf", "[Unit]\n[Service]\nExecStart=/a\n", "unit of systemd"),
        ("start", "# an image\nARG A=1\nFROM python\n", "Dockerfile"),
        ("start", "services:\n  a: {}\n", "compose file"),
        ("start", "web: a b\n\n# and\nworker: c\n", "Procfile"),
    ],
)
def test_a_kind_is_known_by_name_or_content(tmp_path: Path, name: str, text: str, kind: str) -> None:
    assert kind_of(tmp_path / name, text) == kind


def test_another_file_is_refused(tmp_path: Path) -> None:
    with raises(ConfigError, wording("start-files.starts-no-service")):
        kind_of(tmp_path / "README", "hello\n")


def test_a_unit_splits_words_as_its_manual_says(tmp_path: Path) -> None:
    one = unit(
        tmp_path,
        "Environment=\"ONE=one\" 'TWO=two two' EMPTY=",
        "ExecStart=/bin/echo $ONE $TWO ${TWO} $EMPTY ${EMPTY} a${ONE}b a$ONE $$ONE $$ \\; \\",
        "  'single \"q\"' \\x41\\s\\101 \\",
        "   # this line is left out",
        '   "a\\tb" last ; /bin/echo second',
    )

    assert one.words[1:9] == ("one", "two", "two", "two two", "", "aoneb", "a$ONE", "$ONE")
    assert one.words[9:] == ("$", ";", 'single "q"', "A A", "a\tb", "last")


def test_variables_in_quotes_are_split_as_the_manual_of_units_has_it(tmp_path: Path) -> None:
    environment = "Environment=ONE='one' \"TWO='two two' too\" THREE="

    assert unit(tmp_path, environment, "ExecStart=/bin/echo ${ONE} ${TWO} ${THREE}").words[1:] == (
        "one",  # the manual says 'one'; systemd 252 takes these quotes off
        "'two two' too",
        "",
    )
    assert unit(tmp_path, environment, "ExecStart=/bin/echo $ONE $TWO $THREE").words[1:] == (
        "one",
        "two two",
        "too",
    )


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("-/bin/a b", ("/bin/a", "b")),
        ("@/bin/a shown b", ("/bin/a", "b")),
        ("!!-/bin/a b", ("/bin/a", "b")),
        (":/bin/a ${HOME} $HOME $$", ("/bin/a", "${HOME}", "$HOME", "$$")),
        (
            "+/bin/a %%h %n %N %p %i %t",
            ("/bin/a", "%h", "web@blue.service", "web@blue", "web", "blue", "/run"),
        ),
        ("/bin/a --format '%(h)s %l'", ("/bin/a", "--format")),
    ],
)
def test_prefixes_and_specifiers_of_a_unit(tmp_path: Path, written: str, words: tuple[str, ...]) -> None:
    one = unit(tmp_path, f"ExecStart={written}", name="web@blue.service")

    assert one.words[: len(words)] == words
    assert "--format" not in words or one.words[2].startswith("%(h)s ")


def test_an_empty_value_of_a_unit_takes_back_those_before(tmp_path: Path) -> None:
    lines = ("ExecStart=/bin/a", "Environment=A=1", "ExecStart=", "Environment=", "ExecStart=/bin/b")

    assert (unit(tmp_path, *lines).words, unit(tmp_path, *lines).environment) == (("/bin/b",), {})


def test_a_template_is_read_for_an_instance_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "w@.service").write_text("[Service]\nExecStart=/bin/w %i\n")

    (named,), (unnamed,) = (read_start_file(tmp_path / name, {})[1] for name in ("w@3.service", "w@.service"))
    assert named.words == ("/bin/w", "3")
    assert unnamed.words == ("/bin/w", "1")
    assert wording("start-files.name-an-instance") in unnamed.notes


def test_the_files_of_a_unit_go_before_its_environment(tmp_path: Path) -> None:
    (tmp_path / "env").write_text(
        '# of the web\nA=2\nB="x \\"y\\" \\\nz" \nC=it\'s \\\nmore\nno line\nD=\'a\\b\n c\'\n'
    )

    one = unit(
        tmp_path,
        "Environment=A=1 Z=%%",
        f"EnvironmentFile={tmp_path}/env",
        "EnvironmentFile=-/none",
        "ExecStart=/a $A",
    )
    assert one.environment == {"A": "2", "Z": "%", "B": 'x "y" z', "C": "it's more", "D": "a\\b\n c"}
    assert one.words == ("/a", "2")


def test_what_a_unit_has_and_tuner_leaves_out_is_reported(tmp_path: Path) -> None:
    one = unit(
        tmp_path,
        "Type=forking",
        "User=www",
        "LimitNOFILE=9",
        "SetCredential=a:b",
        "Restart=always",
        "ExecStart=/a",
    )

    assert one.notes == ("left out: Type=forking, User=www, LimitNOFILE=9, SetCredential=...",)


def test_supervisord_fills_in_its_expressions(tmp_path: Path) -> None:
    text = (
        '[supervisord]\nenvironment=REGION="eu,west"\n'
        "[program:w]\ncommand=w --at %(ENV_REGION)s --home=%(ENV_HOME)s --port 80%(process_num)02d\n"
        "  --percent 5%% 'a;b' \"c d\" ; the end\n"
        'environment=A="%(program_name)s",B=x/y:2\ndirectory=%(here)s/src\nnumprocs=3\nnumprocs_start=1\nuser=www\n'
    )

    one = started_by(tmp_path / "s.conf", text, {"HOME": "/root"})
    assert one.words[1:9] == ("--at", "eu,west", "--home=/root", "--port", "8001", "--percent", "5%", "a;b")
    assert one.environment == {"REGION": "eu,west", "A": "w", "B": "x/y:2"}
    assert (one.directory, one.copies) == (f"{tmp_path}/src", 3)


def test_supervisord_reads_the_files_that_it_includes(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "w.conf").write_text("[program:w]\ncommand = run w\n")

    one = started_by(tmp_path / "s.conf", "[include]\nfiles = conf.d/*.conf\n")
    assert (one.name, one.words, one.at) == ("w", ("run", "w"), f"{tmp_path}/conf.d/w.conf:2:11")


COMPOSE = """
x-base: &base
  image: web:${TAG:?which}
  environment: {A: "1", PRICE: 5$$}
services:
  plain:
    <<: *base
    command: gunicorn "a b:c" $$HOME --bind :${PORT:-${OTHER-8001}}
  words:
    extends: plain
    entrypoint: [tini, --]
    command: ["gunicorn", "$PORT", '{"a": 1}']
    environment: [B=$TAG, C, D=]
  shell:
    command: sh -c "export A=$$X && exec gunicorn --bind :$$PORT"
    environment: {X: x}
  nothing:
    image: redis
"""


def test_compose_files_are_expanded_and_split(tmp_path: Path) -> None:
    path, environment = tmp_path / "compose.yaml", {"TAG": "7", "C": "c"}

    plain, words, shell = (
        started_by(path, COMPOSE, environment, name) for name in ("plain", "words", "shell")
    )
    assert plain.words == ("gunicorn", "a b:c", "$HOME", "--bind", ":8001")
    assert plain.environment == {"A": "1", "PRICE": "5$"}
    assert words.words == ("tini", "--", "gunicorn", "", '{"a": 1}')
    assert words.environment == {"A": "1", "PRICE": "5$", "B": "7", "C": "c", "D": ""}
    assert shell.words == ("gunicorn", "--bind", ":8000")
    assert shell.environment["A"] == "x"
    assert len(read_start_file(path, environment)[1]) == 3


def test_compose_takes_variables_of_its_own_file_and_files_of_a_service(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PORT=9\nTAG=no\n")
    (tmp_path / "web.env").write_text("A='$TAG'\nB=\"x $TAG\\n\"\nexport C=c # not this\nD=${A}b\nTAG\n")
    text = (
        "services:\n  web:\n    command: run :$PORT $TAG\n"
        "    env_file: [web.env, {path: none.env, required: false}]\n"
        "    environment: {A: own}\n"
    )

    one = started_by(tmp_path / "c.yml", text, {"TAG": "7"})
    assert one.words == ("run", ":9", "7")
    assert one.environment == {"A": "own", "B": "x 7\n", "C": "c", "D": "$TAGb", "TAG": "7"}


def test_an_image_that_is_built_says_what_a_service_does_not(tmp_path: Path) -> None:
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "Dockerfile").write_text(
        'FROM python\nWORKDIR /app\nENV A=1 B=2\nENTRYPOINT ["gunicorn"]\nCMD ["a:b"]\n'
    )
    text = "services:\n  a: {build: ./back}\n  b: {build: back, command: c:d, environment: {B: 3}}\n"

    a, b = (started_by(tmp_path / "c.yml", text, name=name) for name in "ab")
    assert (a.words, b.words) == (("gunicorn", "a:b"), ("gunicorn", "c:d"))
    assert b.environment == {"A": "1", "B": "3"}
    assert (a.directory, a.folder) == ("/app", tmp_path / "back")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('CMD ["gunicorn", "a b:c"]', ("gunicorn", "a b:c")),
        ("CMD gunicorn 'a b:c' \\\n# not this\n\n  --bind :$PORT", ("gunicorn", "a b:c", "--bind", ":8000")),
        ("EXPOSE 9000/tcp\ncmd exec gunicorn -b :${PORT}", ("gunicorn", "-b", ":9000")),
        ("CMD ['gunicorn', 'a:b']", ("[gunicorn,", "a:b]")),  # no JSON: Docker takes it for a line of a shell
        ('ENTRYPOINT ["gunicorn"]\nCMD ["a:b"]', ("gunicorn", "a:b")),
        ("ENTRYPOINT gunicorn a:b\nCMD c", ("gunicorn", "a:b")),
        ('CMD ["old"]\nCMD ["sh", "-c", "gunicorn a:b"]', ("gunicorn", "a:b")),
        ("FROM x AS second\nCMD second", ("second",)),
        ("RUN <<A cat <<-'B'\nCMD no\nA\nCMD no\n\tB\nCMD yes", ("yes",)),
        ('CMD ["old"]\nFROM first\nENTRYPOINT ["new"]', ("new",)),
    ],
)
def test_what_an_image_starts(tmp_path: Path, lines: str, words: tuple[str, ...]) -> None:
    path = tmp_path / "Dockerfile"
    path.write_text(f"FROM python AS first\n{lines}\n")

    assert read_start_file(path, {})[1][-1].words == words


def test_variables_and_folders_of_an_image(tmp_path: Path) -> None:
    one = started_by(
        tmp_path / "Dockerfile",
        "ARG V=1\nFROM python\nARG HOME_OF=/srv\nENV OLD a  value\n"
        "ENV A=$HOME_OF/x\nENV B='$A' C=\"$A y\" A2=$B D=a\\ b E=${NO:-e}\n"
        "WORKDIR $A\nWORKDIR src\nUSER www\nCMD run $B\n",
    )

    assert one.environment == {
        "OLD": "a  value",
        "A": "/srv/x",
        "B": "$A",
        "C": "/srv/x y",
        "A2": "",  # B is that of the instructions before
        "D": "a b",
        "E": "e",
    }
    assert (one.directory, one.words) == ("/srv/x/src", ("run", "$A"))
    assert one.notes == ("left out: USER www",)


def test_lines_of_a_procfile_have_a_port_where_they_want_one(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY='a $b'\n")
    text = "# all\nrelease: migrate\nworker: celery\nweb: gunicorn a:b\nother: run --port ${PORT}\n"

    path = tmp_path / "Procfile"
    worker, web, other = (started_by(path, text, name=name) for name in ("worker", "web", "other"))
    assert "release" not in [one.name for one in read_start_file(path, {})[1]]
    assert worker.environment == {"KEY": "a $b"}
    assert web.environment == {"KEY": "a $b", "PORT": "5100"}
    assert other.words == ("run", "--port", "5200")


@pytest.mark.parametrize(
    ("name", "text", "process", "said"),
    [
        ("Procfile", "web: a\nx y\n", None, wording("start-files.expected-process")),
        ("Procfile", "web: a\nweb: b\n", None, wording("start-files.there-twice")),
        ("web.service", "[Service]\nfoo\n", None, wording("start-files.expected-key")),
        ("web.service", "A=1\n", None, wording("start-files.before-any-section")),
        ("web.service", "[Unit]\nA=1\n", None, wording("start-files.no-exec-start")),
        ("web.service", '[Service]\nExecStart=/a "b\n', "web", wording("start-files.quote-not-closed")),
        ("web.service", "[Service]\nExecStart=/a %b\n", "web", wording("start-files.no-specifier")),
        (
            "web.service",
            "[Service]\nEnvironment=a b\nExecStart=/a\n",
            "web",
            wording("start-files.expected-variable"),
        ),
        ("s.conf", "[program:a]\ncommand=a\nfoo\n", None, wording("start-files.expected-key-of-supervisord")),
        ("s.conf", "[program:a]\ncommand=a %(ENV_NO)s\n", "a", wording("start-files.not-set")),
        ("s.conf", "[program:a]\ncommand=a %(no)s\n", "a", wording("start-files.no-expression")),
        ("s.conf", "[program:a]\ncommand=a 'b\n", "a", wording("start-files.cannot-be-split")),
        ("s.conf", "[program:a]\nuser=b\n", "a", wording("start-files.no-command")),
        ("c.yml", "a: 1\n", None, wording("start-files.no-services")),
        ("c.yml", "service: {}\n", None, wording("start-files.a-config-of-tuner")),
        ("c.yml", "services:\n  web:\n    command: a 'b\n", "web", wording("start-files.compose-quote")),
        (
            "c.yml",
            "services:\n  web:\n    command: a $X-${X:?why}\n",
            "web",
            wording("start-files.compose-required"),
        ),
        (
            "c.yml",
            "services:\n  web: {command: a, environment: [A B]}\n",
            "web",
            wording("start-files.no-name"),
        ),
        ("c.yml", "services: {web: [}\n", None, wording("start-files.not-yaml")),
        ("Dockerfile", "FROM a\nRNU b\n", None, wording("start-files.no-instruction")),
        ("Dockerfile", "ENV a=b\n", None, wording("start-files.before-from")),
        ("Dockerfile", "FROM a\nCMD <<E\nb\nE\n", "image", wording("start-files.here-document")),
        ("Dockerfile", "FROM a\nRUN <<E\nb\n", None, wording("start-files.here-document-not-closed")),
        ("Dockerfile", 'FROM a\nENV A="b\n', None, wording("start-files.dockerfile-variable")),
    ],
    ids=key_of,
)
def test_a_bad_file_is_reported_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, process: str | None, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    error = error_of(Path(name), text, process)

    assert said in error.problem
    assert error.hint is not None or "not YAML" in said
    assert error.exit_code == 2


def test_a_line_of_a_file_of_variables_that_is_none_is_reported_without_it() -> None:
    with raises(ConfigError, wording("start-files.expected-name-value")):
        parse_dotenv("A=1\nhunter22 or so\n", ".env", Variables({}, {}))
    with raises(ConfigError, wording("start-files.variable-quote")):
        parse_environment_file('A="1\n', "env")
