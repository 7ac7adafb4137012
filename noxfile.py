"""The fast tests on every Python that tuner supports and this box has."""

import nox

nox.options.default_venv_backend = "venv"


@nox.session(python=["3.11", "3.12", "3.13"])
def fast(session: nox.Session) -> None:
    session.install("--quiet", "--require-hashes", "-r", "requirements/dev.txt")
    session.install("--quiet", "--no-deps", "--no-build-isolation", ".")
    session.run("pytest", "-q", "-m", "not long and not integration", *session.posargs)
