"""The tests that only compute, on every Python that tuner supports and this box has but the one that runs
nox: `make test` ran them there. `nox -s fast-3.12` runs them on any."""

import platform

import nox

PYTHONS = ["3.11", "3.12", "3.13"]
HERE = ".".join(platform.python_version_tuple()[:2])

nox.options.default_venv_backend = "venv"
nox.options.sessions = [f"fast-{version}" for version in PYTHONS if version != HERE]


@nox.session(python=PYTHONS)
def fast(session: nox.Session) -> None:
    # compiled when it is imported, which most of it is not
    session.install("--quiet", "--no-compile", "--require-hashes", "-r", "requirements/dev.txt")
    session.install("--quiet", "--no-deps", "--no-build-isolation", ".")
    options = ["-q", "-n", "logical", "--maxprocesses", "8", "--dist", "worksteal"]
    chosen = "not long and not integration and not services and not once"
    session.run("pytest", *options, "-m", chosen, *session.posargs)
