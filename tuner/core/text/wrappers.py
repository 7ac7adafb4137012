"""Programs that start another program (``timeout -k 5 30 gunicorn``), and the words that belong to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

MODULE = frozenset({"-m", "--module"})  #: options of `uv run` and Python that precede the name of a module


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The syntax of a program's words up to the command that it starts."""

    #: options with a value, which is the next word or in the same word: ``-n 5``, ``-n5``, ``--adjustment=5``
    valued: frozenset[str] = frozenset()
    all_valued: bool = False  #: whether every long option has a value
    #: whether long options may be abbreviated, as with getopt_long
    abbreviations: bool = False
    #: words that make it start a command, after the options (``uv run``); empty: no such word is needed
    subcommands: frozenset[str] = frozenset()
    #: number of words between the options and the command, such as the time in ``timeout 30 gunicorn``
    n_operands: int = 0
    #: whether variables may precede the command, as in ``sudo A=1 gunicorn``
    assigns: bool = False
    #: options with which it starts no command
    alone: frozenset[str] = frozenset()
    project: bool = False  #: whether it selects the environment (Python, PATH) of the command
    #: options with which the command does not inherit the environment
    hides_with: frozenset[str] = frozenset()
    hides: bool = False  #: whether the command never inherits the environment, except with *shows_with*
    shows_with: frozenset[str] = frozenset()
    is_user: bool = False  #: whether it may start the command as another user


@dataclass(frozen=True, slots=True)
class Start:
    """The words of a wrapper before its command."""

    wrapper: Wrapper
    n_words: int  #: number of words up to the command, including the wrapper's name
    assigned: Mapping[str, str] = field(default_factory=dict)
    hides_environment: bool = False  #: whether the command does not inherit the wrapper's variables


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UV = _options(
    "-p --python -w --with --with-editable --with-requirements --env-file --extra --no-extra --group"
    " --no-group --only-group --package --directory --project --config-file --cache-dir --color -i"
    " --index-url --index --default-index --extra-index-url -f --find-links -P --upgrade-package"
    " --reinstall-package --refresh-package --index-strategy --keyring-provider --resolution --prerelease"
    " --fork-strategy --exclude-newer --exclude-newer-package --link-mode -C --config-setting"
    " --config-settings-package --no-build-package --no-build-isolation-package --no-binary-package"
    " --python-preference --python-platform --allow-insecure-host"
)
_RUN = frozenset({"run"})
_CONDA = Wrapper(_options("-n --name -p --prefix --cwd"), subcommands=_RUN, project=True)
_DUMB_INIT = _options("-r --rewrite")
_TINI = Wrapper(_options("-p -e"), alone=_options("-h --version -l"))
_PY_SPY = Wrapper(
    _options("-o --output -r --rate -d --duration -f --format"),
    subcommands=frozenset({"record", "top"}),
    alone=_options("-p --pid"),
)
_NUMACTL = _options(
    "-i --interleave -w --weighted-interleave -p --preferred -P --preferred-many -c --cpubind"
    " -N --cpunodebind -C --physcpubind -m --membind"
)
_SUDO = _options(
    "-u --user -g --group -h --host -p --prompt -C --close-from -D --chdir -R --chroot -r --role -t --type"
    " -T --command-timeout -U --other-user -a --auth-type -c --login-class"
)
_SETPRIV = _options(
    "--ambient-caps --inh-caps --bounding-set --ruid --euid --rgid --egid --reuid --regid --groups"
    " --securebits --pdeathsig --selinux-label --apparmor-profile"
)
_STRACE = _options(
    "-o --output -e --expr --trace -s --string-limit -P --trace-path -u --user -E --env -O -S -b -a -I -X"
)
WRAPPERS: Mapping[str, Wrapper] = {
    "env": Wrapper(
        _options("-u --unset -C --chdir"),
        abbreviations=True,
        assigns=True,
        alone=_options("-S --split-string"),
        hides_with=_options("- -i --ignore-environment"),
    ),
    # coreutils, util-linux and similar packages
    "nice": Wrapper(_options("-n --adjustment"), abbreviations=True),
    "ionice": Wrapper(
        _options("-c --class -n --classdata"),
        abbreviations=True,
        alone=_options("-p --pid -P --pgid -u --uid"),
    ),
    "chrt": Wrapper(
        _options("-T --sched-runtime -P --sched-period -D --sched-deadline"),
        n_operands=1,
        alone=_options("-p --pid -m --max"),
    ),
    "taskset": Wrapper(n_operands=1, alone=_options("-p --pid")),
    "numactl": Wrapper(_NUMACTL, abbreviations=True),
    "stdbuf": Wrapper(_options("-i --input -o --output -e --error"), abbreviations=True),
    "timeout": Wrapper(_options("-k --kill-after -s --signal"), abbreviations=True, n_operands=1),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "prlimit": Wrapper(_options("-o --output"), alone=_options("-p --pid")),
    "setpriv": Wrapper(_SETPRIV, is_user=True, hides_with=_options("--reset-env")),
    "time": Wrapper(_options("-f --format -o --output"), abbreviations=True),
    "strace": Wrapper(_STRACE, alone=_options("-p --attach")),
    # another user
    "sudo": Wrapper(
        _SUDO,
        assigns=True,
        alone=_options("-l --list -v --validate -e --edit -K -k -V"),
        hides=True,
        shows_with=_options("-E --preserve-env"),
        is_user=True,
    ),
    "gosu": Wrapper(n_operands=1, is_user=True),
    "su-exec": Wrapper(n_operands=1, is_user=True),
    # init programs of containers
    "tini": _TINI,
    "tini-static": _TINI,
    "docker-init": _TINI,
    "dumb-init": Wrapper(_DUMB_INIT, abbreviations=True),
    # projects' environments
    "uv": Wrapper(_UV, subcommands=_RUN, project=True),
    "poetry": Wrapper(_options("-C --directory -P --project"), subcommands=_RUN, project=True),
    "pipenv": Wrapper(_options("--python"), subcommands=_RUN, project=True),
    "pdm": Wrapper(_options("-c --config -p --project -S --skip --venv"), subcommands=_RUN, project=True),
    "hatch": Wrapper(
        _options(
            "-e --env -p --project --data-dir --cache-dir --config -i --include -x --exclude -f --filter"
        ),
        subcommands=_RUN,
        project=True,
    ),
    "conda": _CONDA,
    "mamba": _CONDA,
    "micromamba": Wrapper(
        _options("-n --name -p --prefix --cwd -a --attach -e --env -r --root-prefix --rc-file --label"),
        subcommands=_RUN,
        project=True,
    ),
    # variables from files or services
    "dotenv": Wrapper(_options("-f --file -q --quote -e --export"), subcommands=_RUN),
    "doppler": Wrapper(_options("-p --project -c --config -t --token --scope --mount"), subcommands=_RUN),
    # tracers and profilers
    "ddtrace-run": Wrapper(),
    "newrelic-admin": Wrapper(subcommands=frozenset({"run-program"})),
    "opentelemetry-instrument": Wrapper(all_valued=True),
    "py-spy": _PY_SPY,
}


def start_of(words: Sequence[str]) -> Start | None:
    """Return the words before the command that a wrapper starts.

    None: the first word is not a wrapper, or it starts no command."""
    wrapper = WRAPPERS.get(PurePath(words[0]).name)
    if wrapper is None:
        return None
    seen: list[str] = []
    at = options_end(words, 1, wrapper, seen)
    if wrapper.subcommands:
        if at >= len(words) or words[at] not in wrapper.subcommands:
            return None
        at = options_end(words, at + 1, wrapper, seen)
    if words[at : at + 1] == ["-"] and "-" in wrapper.hides_with:
        seen.append("-")
        at += 1
    at += wrapper.n_operands
    assigned: dict[str, str] = {}
    while wrapper.assigns and at < len(words) and is_assignment(words[at]):
        name, _, value = words[at].partition("=")
        assigned[name] = value
        at += 1
    if at >= len(words) or not wrapper.alone.isdisjoint(seen):
        return None
    hides = wrapper.hides or not wrapper.hides_with.isdisjoint(seen)
    return Start(wrapper, at, assigned, hides and wrapper.shows_with.isdisjoint(seen))


def options_end(words: Sequence[str], at: int, wrapper: Wrapper, seen: list[str]) -> int:
    """Return the end of the options from *at* on; add their names to *seen*. Two dashes are the last."""
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        if word.startswith("--"):
            name, is_whole, _ = word.partition("=")
            name = _whole_name(name, wrapper)
            seen.append(name)
            at += not is_whole and (wrapper.all_valued or name in wrapper.valued)
        else:
            at += _takes_next(word, wrapper, seen)
        if seen[-1] in MODULE and wrapper.project:
            break
    return at


def is_assignment(word: str) -> bool:
    """Return whether a word sets a variable: ``PORT=8000``."""
    return word.partition("=")[0].isidentifier() and "=" in word and word.isascii()


def _whole_name(name: str, wrapper: Wrapper) -> str:
    if not wrapper.abbreviations or name in wrapper.valued:
        return name
    meant = [one for one in wrapper.valued if one.startswith(name)]
    return meant[0] if len(meant) == 1 else name


def _takes_next(word: str, wrapper: Wrapper, seen: list[str]) -> bool:
    """Return whether the last of the short options in *word* has its value in the next word."""
    if word in wrapper.valued:  # also for an option of several letters
        seen.append(word)
        return True
    for at, letter in enumerate(word[1:], start=1):
        seen.append(f"-{letter}")
        if f"-{letter}" in wrapper.valued:
            return at == len(word) - 1
    return False
