"""The tests that only compute, on every Python that tuner supports and this box has but the one that runs
nox: `make test` ran them there. `nox -s fast-3.12` runs them on any. Those of statistics and of the model, a
third of the time, are left out: their arithmetic is numpy's and that of floats, the same on every Python."""

import platform

import nox

PYTHONS = ["3.11", "3.12", "3.13"]
HERE = ".".join(platform.python_version_tuple()[:2])

nox.options.default_venv_backend = "venv"
nox.options.sessions = [f"fast-{version}" for version in PYTHONS if version != HERE]
#: in names of files and tests
_ARITHMETIC = "_model or _race or noise or posterior or quantiles or calibration or simulation"


@nox.session(python=PYTHONS)
def fast(session: nox.Session) -> None:
    # compiled when it is imported, which most of it is not
    session.install("--quiet", "--no-compile", "--require-hashes", "-r", "requirements/dev.txt")
    session.install("--quiet", "--no-deps", "--no-build-isolation", ".")
    options = ["-q", "-n", "logical", "--maxprocesses", "8", "--dist", "worksteal"]
    which = ["-m", "not long and not integration and not services", "-k", f"not ({_ARITHMETIC})"]
    session.run("pytest", *options, *which, *session.posargs)
