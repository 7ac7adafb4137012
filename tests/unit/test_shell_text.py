"""The command at the end of a shell's text; a shell is asked for some of them."""

from __future__ import annotations

import subprocess

import pytest

from tuner.core.text.shell_text import ObscureError, last_command, plain_words

from ..raising import raises
from ..wording import key_of, wording

ENVIRONMENT = {"PORT": "9000", "OPTIONS": "-w 3  -t 9", "EMPTY": ""}


@pytest.mark.parametrize(
    ("before", "last", "words"),
    [
        ("", "gunicorn app:app", "gunicorn|app:app"),
        ("cd /srv && ", "exec gunicorn app:app", "exec|gunicorn|app:app"),
        ("set -e; . ./env\n", "gunicorn \\\n  -w 3 a:b\n", "gunicorn|-w|3|a:b"),
        ("", "# comes first\ngunicorn a # the app\n\n", "gunicorn|a"),
        ("# one\ncd x\n", "gunicorn a", "gunicorn|a"),
        ("if test -f x; then\n  . ./x\nfi\n", "exec gunicorn a", "exec|gunicorn|a"),
        ("while ! nc -z db 1; do sleep 1; done\n", "gunicorn a", "gunicorn|a"),
        ("for i in 1 2; do echo $i; done; ", "rq worker", "rq|worker"),
        ("f() { echo }; }\nf\n", "gunicorn a", "gunicorn|a"),
        ("case $1 in\n a|b) x;;\n (c) y;;\nesac\n", "gunicorn a", "gunicorn|a"),
        ("test -d x || mkdir x\ncat a | b > c 2>&1\n", "gunicorn a", "gunicorn|a"),
        ("", "gunicorn \"app:make('a b')\"", "gunicorn|app:make('a b')"),
        ("", "gunicorn -b :$PORT 'a:$PORT' \"b ${PORT}\"", "gunicorn|-b|:9000|a:$PORT|b 9000"),
        ("", 'gunicorn ${NONE:-x} ${EMPTY:-y} ${EMPTY-z} $NONE "$EMPTY" a', "gunicorn|x|y||a"),
        ("", 'gunicorn $OPTIONS "$OPTIONS" \\$PORT', "gunicorn|-w|3|-t|9|-w 3  -t 9|$PORT"),
    ],
)
def test_the_last_command_is_found_with_its_words(before: str, last: str, words: str) -> None:
    found = last_command(before + last)

    assert found.before == before.rstrip(" ")
    assert plain_words(found.words, ENVIRONMENT) == words.split("|")


@pytest.mark.parametrize(
    "words",
    [
        "x $OPTIONS a",
        'x "$OPTIONS" ${NONE:-x y} b',
        "x ${EMPTY:-y} \"$EMPTY\" '$PORT'\\$PORT",
        "x a\"$PORT\"b'c d'",
    ],
)
def test_a_shell_makes_the_same_words(words: str) -> None:
    script = f"for word in {words}\ndo printf '%s\\0' \"$word\"; done"
    printed = subprocess.run(
        ["/bin/sh", "-c", script], check=True, capture_output=True, text=True, env=ENVIRONMENT
    ).stdout

    assert plain_words(last_command(words).words, ENVIRONMENT) == printed.split("\0")[:-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gunicorn a | tee log", wording("services.shell-pipe")),
        ("gunicorn a >> log 2>&1", wording("services.shell-redirected")),
        ("gunicorn a &", wording("services.shell-background")),
        ("case $1 in web) gunicorn a;; esac", wording("services.shell-compound")),
        ("(cd x; gunicorn a)", wording("services.shell-compound")),
        ("if x; then gunicorn a", wording("services.shell-unfinished")),
        ("cat <<END\nx\nEND\ngunicorn a", wording("services.shell-here")),
        ("gunicorn 'a", wording("services.shell-quote")),
        ("# nothing\n", wording("services.shell-empty")),
        ("gunicorn -w $(nproc)", wording("services.shell-worked-out")),
        ("gunicorn `pwd`/a", wording("services.shell-worked-out-too")),
        ("~/bin/gunicorn a", wording("services.shell-home")),
    ],
    ids=key_of,
)
def test_what_is_no_plain_command_is_said(text: str, said: str) -> None:
    with raises(ObscureError, said):
        plain_words(last_command(text).words, ENVIRONMENT)
