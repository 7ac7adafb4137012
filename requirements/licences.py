"""Write requirements/licences.md: the licence of each locked package, read from what is installed.

python requirements/licences.py           # write it, in the environment of `make test`
python requirements/licences.py --check   # write nothing; exit code 1 when the page is stale
"""

from __future__ import annotations

import importlib.metadata
import sys

from locked import HERE, Locked, read_lock

PAGE = HERE / "licences.md"

#: what a package says of itself, where that is no SPDX expression -> the expression
SAID = {
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "BSD-derived (http://www.repoze.org/LICENSE.txt)": "LicenseRef-Repoze",
}
_FORTRAN = "BSD-3-Clause-Open-MPI AND GPL-3.0-or-later WITH GCC-exception-3.1 AND LGPL-2.1-or-later"
#: packages that say less than their licence file does, or are not installed on every box: read by hand there
BY_HAND = {
    "amqp": "BSD-3-Clause",
    "async-timeout": "Apache-2.0",
    "axe-core-python": "MIT AND MPL-2.0",  # axe.min.js is in it
    "colorama": "BSD-3-Clause",
    "importlib-metadata": "Apache-2.0",  # before Python 3.12
    "lazy-importer": "Apache-2.0",  # likewise
    "docutils": "LicenseRef-Public-Domain AND BSD-2-Clause AND PSF-2.0 AND GPL-3.0-or-later",
    "jinja2": "BSD-3-Clause",
    # the wheels' libraries too: OpenBLAS, LAPACK, GCC's runtime, libquadmath
    "numpy": f"BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0 AND {_FORTRAN}",
    "partd": "BSD-3-Clause",
    "pyelftools": "Unlicense",
    "scipy": f"BSD-3-Clause AND {_FORTRAN}",
    "tzdata": "Apache-2.0",  # on Windows, and where something else brings it along
    "vine": "BSD-3-Clause",
    "zict": "BSD-3-Clause",
    "zipp": "MIT",  # before Python 3.12
}
#: asks nothing but to keep the notice
PERMISSIVE = frozenset(
    [
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSD-3-Clause-Open-MPI",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "PSF-2.0",
        "Unlicense",
        "Zlib",
        "LicenseRef-Public-Domain",
        "LicenseRef-Repoze",
    ]
)
#: asks more of who passes the package on or changes it; nothing of who only uses it -> why it may stay
ASKS_MORE = {
    "LGPL-3.0-only": "the package stays apart and can be exchanged: Python imports it, nothing is linked",
    "LGPL-2.1-or-later": "libquadmath, a library of its own in the wheel, which can be exchanged",
    "MPL-2.0": "changed files of the package itself stay under it; tuner changes none",
    "GPL-3.0-or-later WITH GCC-exception-3.1": "GCC's own runtime; the exception frees what uses it",
    "GPL-3.0-or-later": "one file that Emacs users load, not imported; a tool of the tests",
}


class UnknownLicence(Exception):
    """A package whose licence nobody has looked at; the text says which."""


def licence_of(package: Locked) -> str:
    """A package's licence as an SPDX expression, by its metadata here, or as it was read by hand."""
    if package.name in BY_HAND:
        return BY_HAND[package.name]
    try:
        metadata = importlib.metadata.metadata(package.name)
    except importlib.metadata.PackageNotFoundError:
        raise UnknownLicence(
            f"{package.name} is not installed here: put its licence into BY_HAND of requirements/licences.py"
        ) from None
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [
        text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier", []) if text[:7] == "License"
    ]
    for said in (metadata.get("License") or "", *classifiers):
        if found := SAID.get(said, said if said in PERMISSIVE or said in ASKS_MORE else None):
            return found
    raise UnknownLicence(
        f"{package.name} says {metadata.get('License')!r} and {classifiers}: look and put it down"
    )


def parts(expression: str) -> tuple[str, ...]:
    """The licences that an expression asks to keep, each by itself; of a choice the first."""
    return tuple(part.partition(" OR ")[0] for part in expression.split(" AND "))


def asks_more(expression: str) -> tuple[str, ...]:
    """Those licences of *expression* that ask for more than their notice; UnknownLicence: nobody knows."""
    beyond = [part for part in parts(expression) if part not in PERMISSIVE]
    if unknown := [part for part in beyond if part not in ASKS_MORE]:
        raise UnknownLicence(f"nobody has said what {', '.join(unknown)} asks for")
    return tuple(beyond)


GROUPS = (
    (
        "Installed with tuner",
        "`requirements/run.txt`: tuner, with its extras `redis`, `rabbitmq` and `postgresql`.",
        "run",
    ),
    (
        "Installed with a fleet",
        "`requirements/fleet.txt`: what the extra `fleet` brings beside that.",
        "fleet",
    ),
    (
        "Tools that build, check and test it",
        "`requirements/build.txt` and `dev.txt`: not shipped, and not installed where tuner is used.",
        "dev",
    ),
)

HEAD = """<!-- Made by requirements/licences.py (make licences): change it there. -->

# Licences

tuner is under the [MIT licence](../LICENSE). This page has the licence of each package that the
[locks](../docs/adr/20261120-dependencies.md) name, as the package itself says, in SPDX's words.
It is no legal advice. `make sbom` writes the same for machines.

## What is in the wheel

Only code of this project, and in its two programs, `crash-stackwalk` and `tuner-simulate`, parts of the C
library: both are linked statically where the C library can be. A wheel that was built on Debian so holds
parts of **glibc (LGPL-2.1-or-later)** and of GCC's runtime (GPL-3.0-or-later with the GCC Runtime Library
Exception). Who passes such a wheel on passes on parts of glibc: the LGPL asks that the receiver can link the
programs anew, with another glibc. The sdist has all that this takes; give it along with the wheel, or say
where it is. Packages of Python are named by the wheel, not carried in it.
The pages that `tuner report` writes hold no foreign script.
"""


def render() -> str:
    """The page."""
    sections, named, seen = [], [], set()
    for title, words, lock in GROUPS:
        rows = []
        for package in read_lock(HERE / f"{lock}.txt"):
            if (package.name, package.version) in seen:
                continue
            seen.add((package.name, package.version))
            licence = licence_of(package)
            named += [(package.name, part, lock) for part in asks_more(licence)]
            where = "" if package.marker is None else f"`{package.marker}`"
            rows.append(f"| {package.name} | {package.version} | {licence} | {where} |\n")
        head = "| package | version | licence | only where |\n|---|---|---|---|\n"
        sections.append(f"\n## {title}\n\n{words}\n\n{head}{''.join(rows)}")
    return HEAD + _named(named) + "".join(sections) + SERVICES


def _named(named: list[tuple[str, str, str]]) -> str:
    once = dict.fromkeys(named)  # numpy has two versions, for two Pythons
    rows = "".join(f"| {name} | {part} | {lock}.txt | {ASKS_MORE[part]} |\n" for name, part, lock in once)
    return f"""
## What asks for more than its notice

None of these keeps tuner from being used, or its sdist and wheel from being passed on under the MIT
licence. A copy of a whole environment (an image with the packages in it) passes them on, too, and owes
what they ask for. A licence that is neither permissive nor in this table fails `make test` until somebody
has looked.

| package | licence | lock | why it may stay |
|---|---|---|---|
{rows}
The wheel of psycopg-binary brings libpq, OpenSSL, Kerberos, LDAP and SASL along and does not name their
licences; `psycopg` without `-binary` uses the system's own.
"""


SERVICES = """
## Services that tests run

`requirements/services.txt` locks what tests start for real, in an environment of its own. It is not in
this list: tuner starts such programs by command line, imports none of them into itself, ships none, and
needs none. uWSGI among them is under the GPL, with a linking exception. The extra
`lab` of tuner (nornir) is locked with them. `requirements/audit.txt` locks the tools of `make audit` and
`make sbom`, apart as well.
"""


def main() -> int:
    """Write the page, or look whether it is as it should be."""
    try:
        page = render()
    except UnknownLicence as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return 2
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page:
        return 0
    if "--check" in sys.argv[1:]:
        sys.stdout.write("requirements/licences.md differs from the locks. Write it: make licences\n")
        return 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
