"""A world: the modules, symbols and crash sites that many crashes share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from uuid import UUID

from . import minidump
from .flavours import FLAVOURS, Flavour
from .minidump import LoadedModule
from .names import function_name
from .symbols import Function, SymbolStyle, SymbolTable, make_symbols

#: the roles in every world, in the order of its module list; modules from the sixth on are extras
_ROLES = ("exe", "engine", "system", "support", "driver", "loader")
_MIN_SYMBOLS_BYTES = 4_000
_N_CHANCE_SITES = 16  #: crash sites in addition to the written ones, which form the tail of the distribution
_SITE_FRAMES = 8  #: frames shared by all crashes at a site; enough to distinguish signatures

_MARK = "script::gc::Marker::Drain(script::gc::Budget&)"
_REFLOW = "layout::Box::Reflow(layout::Constraints const&)"
_PANIC = "core::panicking::panic_fmt"
_LOOP = ("base::MessageLoop::RunTask(base::Task&&)", "base::MessageLoop::Run()", "WaterWolfMain(int, char**)")
_WORKER = ("base::Worker::WaitForTask()", "base::Worker::Run()", "base::Worker::ThreadMain(void*)")
_POLLER = ("net::Poller::WaitForEvents(int)", "net::SocketThread::Run()")

#: engine functions of each written crash site, innermost first, most frequent site first. "!x" is x in the
#: system library, "+x" is x in the support library, "*" is code outside modules, "?" is the driver without
#: symbols.
_WRITTEN_SITES = (
    ("cause", ("dom::Element::DispatchEvent(dom::Event&)", "dom::EventQueue::Flush()")),
    ("abort", ("!kill", "!abort", "base::CrashNow(char const*)", "base::AllocOrDie(unsigned long)",
               "gfx::Surface::Create(gfx::Size, gfx::Format)")),
    ("null", ("*", "dom::Node::Release()", "base::RefPtr<dom::Node>::~RefPtr()")),
    ("cause", ("?", "?", "gfx::gl::Context::SwapBuffers()", "gfx::Compositor::Composite()")),
    ("cause", (_MARK, "script::gc::Zone::Collect(script::gc::Reason)")),
    ("overflow", (_REFLOW,) * 24),
    ("cause", ("!copy", "media::Decoder::CopyPlane(media::Plane const&)", "media::Decoder::Decode()")),
    ("cause", ("+cache_index_lookup", "+cache_open_entry", "net::Channel::AsyncOpen()")),
    ("abort", (_PANIC, "core::option::unwrap_failed", "style::rules::Matcher::match_element")),
    ("cause", ("*", "*", "script::vm::Interpret(script::vm::State&)", "script::vm::Run(script::Scope&)")),
)  # fmt: skip

Code = tuple["Module", Function] | None  #: a function of a module; None: code outside all modules


@dataclass(frozen=True)
class Module:
    """One loaded module, with its symbols in a store (None: not available)."""

    role: str
    loaded: LoadedModule
    debug_file: str
    symbols: SymbolTable | None

    @property
    def name(self) -> str:
        """The file name, without its folder."""
        return re.split(r"[\\/]", self.loaded.path)[-1]

    @property
    def debug_id(self) -> str:
        """The id of its symbols in a store."""
        return minidump.debug_id(self.loaded.code_view)

    @property
    def symbol_path(self) -> Path:
        """The path of its symbols in a store, relative to the root."""
        return Path(self.debug_file, self.debug_id, f"{self.debug_file.removesuffix('.pdb')}.sym")


@dataclass(frozen=True, slots=True)
class CrashSite:
    """A place where this product often crashes: its innermost frames and the cause."""

    kind: str  #: "cause" (any), "abort", "null" or "overflow"
    chain: tuple[Code, ...]


@dataclass(frozen=True)
class World:
    """One build of the product on one operating system."""

    flavour: Flavour
    modules: tuple[Module, ...]
    sites: tuple[CrashSite, ...]  #: most frequent first
    main_tail: tuple[Code, ...]  #: the outermost frames of the main thread
    thread_tail: tuple[Code, ...]  #: the outermost frames of every other thread
    waits: tuple[tuple[Code, ...], ...]  #: whole stacks of threads that wait for work

    @cached_property
    def engine(self) -> Module:
        """The module of most frames."""
        return self.modules[1]

    def write_symbols(self, root: Path) -> None:
        """Write every symbol file into the store at *root*, which may contain those of other worlds."""
        for module in self.modules:
            if module.symbols is not None:
                path = root / module.symbol_path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(module.symbols.text, encoding="utf-8")


def make_world(
    seed: int, *, symbols_bytes: int = 560_000, n_modules: int = 6, os_name: str = "linux"
) -> World:
    """Make the modules and symbols that many crashes share.

    Args:
        seed: the same seed (and other arguments) gives the same bytes.
        symbols_bytes: size of the largest symbol file, the engine's; the system's and the support library's
            have a quarter of it, the executable's at most 40 kB. Small sizes (under 30 kB) are exceeded.
        n_modules: 5 or more; every second one beyond the sixth has symbols.
        os_name: "linux", "windows" or "macos".
    """
    if n_modules < 5:
        raise ValueError(f"a world has 5 modules or more, not {n_modules}")
    if os_name not in FLAVOURS:
        raise ValueError(f"no such operating system: {os_name!r}; there are {', '.join(FLAVOURS)}")
    return _WorldMaker(Random(f"world {seed} {os_name}"), FLAVOURS[os_name], symbols_bytes, n_modules).make()


class _WorldMaker:
    def __init__(self, random: Random, flavour: Flavour, symbols_bytes: int, n_modules: int) -> None:
        self._random = random
        self._flavour = flavour
        self._symbols_bytes = symbols_bytes
        self._roles = [*_ROLES, *("extra" for _ in range(n_modules - len(_ROLES)))][:n_modules]
        self._next_base = flavour.library_base

    def make(self) -> World:
        modules = tuple(self._module(index, role) for index, role in enumerate(self._roles))
        by_role: Mapping[str, Module] = {module.role: module for module in reversed(modules)}
        sites = []
        engine = by_role["engine"]
        assert engine.symbols is not None
        for kind, words in [*_WRITTEN_SITES, *[("cause", ())] * _N_CHANCE_SITES]:
            callers = self._random.choices(engine.symbols.functions, k=max(0, _SITE_FRAMES - len(words)))
            chain = [self._code(by_role, word) for word in words]
            sites.append(CrashSite(kind, (*chain, *((engine, function) for function in callers))))
        main_tail = (*_LOOP, "=main", *self._flavour.outermost)
        thread_tail = (*_WORKER[1:], "!thread_main", "!thread_start")
        waits = (
            ("!wait_call", "!wait", _WORKER[0], *thread_tail),
            ("!poll", *_POLLER, *thread_tail),
            ("!wait_call", "!wait", "?", "?", *thread_tail[-2:]),
            ("!wait_call", "+cache_writer_wait", "+cache_writer_run", *thread_tail[-2:]),
        )
        return World(
            self._flavour,
            modules,
            tuple(sites),
            tuple(self._code(by_role, word) for word in main_tail),
            tuple(self._code(by_role, word) for word in thread_tail),
            tuple(tuple(self._code(by_role, word) for word in words) for words in waits),
        )

    def _code(self, by_role: Mapping[str, Module], word: str) -> Code:
        if word == "*":
            return None
        role, name = "engine", word
        if word == "?":
            role, name = "driver", ""
        elif word[0] in "!+=":
            role = {"!": "system", "+": "support", "=": "exe"}[word[0]]
            name = self._flavour.system_functions[word[1:]] if word[0] == "!" else word[1:]
        module = by_role[role]
        if module.symbols is None:  # there is code without known names
            address = 0x1000 + 16 * self._random.randrange((module.loaded.size - 0x3000) // 16)
            return module, Function(address, 0x400, "")
        return module, module.symbols.by_name[name]

    def _module(self, index: int, role: str) -> Module:
        flavour = self._flavour
        path, debug_path = (text.format(number=index) for text in flavour.modules[role])
        name = re.split(r"[\\/]", path)[-1]
        identifier = self._random.randbytes(20)
        if flavour.name == "linux":
            code_view = minidump.build_id(identifier)
        else:
            age = self._random.randrange(1, 20) if flavour.name == "windows" else 0
            code_view = minidump.rsds(UUID(bytes=identifier[:16]), age, debug_path)
        debug_file = re.split(r"[\\/]", debug_path)[-1] or name
        header = f"MODULE {flavour.symbol_os} x86_64 {minidump.debug_id(code_view)} {debug_file}\n"
        if role != "system":
            header += f"INFO CODE_ID {identifier.hex().upper()}\n"
        symbols = self._symbols(index, role, header)
        end = symbols.end if symbols is not None else 0x10_0000
        size = (end + 0x4000 + 0xFFF) // 0x1000 * 0x1000
        base = flavour.image_base if role == "exe" else self._next_base
        if role != "exe":
            self._next_base += size + 0x1000 * self._random.randrange(1, 0x200)
        version = (self._random.randrange(1, 128), 0, self._random.randrange(4), 0)
        loaded = LoadedModule(path, base, size, code_view, self._random.getrandbits(31), version)
        return Module(role, loaded, debug_file, symbols)

    def _symbols(self, index: int, role: str, header: str) -> SymbolTable | None:
        flavour, n_bytes = self._flavour, self._symbols_bytes
        if role in ("driver", "loader") or (role == "extra" and index % 2):
            return None
        style, wanted = SymbolStyle(), ["main", *(word[1:] for word in flavour.outermost if word[0] == "=")]
        if role == "engine":
            words = [word for _, words in _WRITTEN_SITES for word in words if word[0] not in "!+=?*"]
            wanted = sorted({*words, *_LOOP, *_WORKER, *_POLLER})
        elif role == "exe":
            n_bytes = min(40_000, n_bytes // 4)
        elif role == "system":
            n_bytes //= 4
            style = SymbolStyle(lines=False, cfi=flavour.system_library_has_cfi, bare_ratio=0.05)
            wanted = sorted(set(flavour.system_functions.values()))
        elif role == "support":
            n_bytes //= 4
            style = SymbolStyle(cfi=False)
            wanted = ["cache_index_lookup", "cache_open_entry", "cache_writer_wait", "cache_writer_run"]
        else:
            n_bytes, wanted = n_bytes // 16, [function_name(self._random, 0)]
        return make_symbols(
            self._random,
            header=header,
            style=style,
            n_bytes=max(n_bytes, _MIN_SYMBOLS_BYTES),
            wanted=wanted,
            starts=flavour.starts,
        )
