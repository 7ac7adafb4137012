"""Tests on every Python that tuner supports and this machine has, except the one that runs nox.

`nox -t ci` runs the tests that can depend on the version of Python on the newest three, `nox -t full` all
that only compute on every one. `nox -s versions-3.12` runs the first kind on a Python of your choice.
`.ci/pythons` unpacks newer Pythons than a machine has.
"""

import platform

import nox

PYTHONS = ["3.11", "3.12", "3.13", "3.14", "3.15"]
HERE = ".".join(platform.python_version_tuple()[:2])
OTHERS = [version for version in PYTHONS if version != HERE]
NEWEST = [version for version in OTHERS if version in PYTHONS[-3:]]

nox.options.default_venv_backend = "virtualenv"  # Debian's Pythons have no ensurepip without a package more
nox.options.sessions = [f"versions-{version}" for version in OTHERS]


def _run(session: nox.Session, chosen: str) -> None:
    # compiled when it is imported, which most of it is not
    session.install("--quiet", "--no-compile", "--require-hashes", "-r", "requirements/dev.txt")
    session.install("--quiet", "--no-deps", "--no-build-isolation", ".")
    session.run("pytest", "-q", "-n", "2", "--dist", "worksteal", "-m", chosen, *session.posargs)


@nox.session(python=NEWEST, tags=["ci"])
def newest(session: nox.Session) -> None:
    _run(session, "pythons and not costly and not full")


@nox.session(python=OTHERS)
def versions(session: nox.Session) -> None:
    _run(session, "pythons and not costly and not full")


@nox.session(python=OTHERS, tags=["full"])
def computing(session: nox.Session) -> None:
    _run(session, "(pythons or not integration) and not services and not alone and not full")
