"""Generator of one crash of a world, with the expected output of a stackwalker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from .flavours import Cause
from .minidump import WINDOWS, Dump, ExceptionRecord, Memory, Thread, amd64_context, write_minidump
from .raw_crash import make_raw_crash
from .stack import CraftedStack, craft_stack
from .world import Code, CrashSite, World

_MAX_THREADS = 20
_MAX_FRAMES = 60
_STACK_SPACING = 0x100_0000
_RANK_EXPONENT = 1.1  #: the n-th most frequent site gets 1 / n**this: a heavy head, as in real crash reports


@dataclass(frozen=True, slots=True)
class SyntheticCrash:
    """A crash report and its known answer."""

    dump: bytes  #: the minidump
    #: the known part of a stackwalker's JSON: system_info, crash_info, threads with their frames, modules.
    #: Missing keys are unknown; frames with inlined functions have no file and line.
    expected: dict[str, Any]
    raw_crash: dict[str, str]  #: annotations sent with the dump


def make_crash(seed: int, world: World) -> SyntheticCrash:
    """Return the crash of *seed* in *world*; equal arguments result in the same bytes."""
    return _CrashMaker(Random(f"crash {seed} {world.flavour.name}"), world).make()


class _CrashMaker:
    def __init__(self, random: Random, world: World) -> None:
        self._random = random
        self._world = world
        self._flavour = world.flavour

    def make(self) -> SyntheticCrash:
        random, world = self._random, self._world
        weights = [1 / rank**_RANK_EXPONENT for rank in range(1, len(world.sites) + 1)]
        site = random.choices(world.sites, weights)[0]
        n_threads = min(1 + int(random.expovariate(1 / 5)), _MAX_THREADS)
        crashing = 0 if random.random() < 0.6 else random.randrange(n_threads)
        stacks = [
            self._stack(
                index, self._crash_chain(site, index) if index == crashing else self._idle_chain(index)
            )
            for index in range(n_threads)
        ]
        ids = random.sample(range(1000, 60_000), n_threads + 1)
        threads = []
        for index, stack in enumerate(stacks):
            registers = stack.registers
            if index == crashing:  # it is inside the handler: its context is in the exception
                registers = {name: random.getrandbits(47) for name in stack.registers}
            threads.append(Thread(ids[index], stack.memory, amd64_context(registers)))
        answers = [
            {"thread_id": ids[index], "frame_count": len(stack.frames), "frames": stack.frames}
            for index, stack in enumerate(stacks)
        ]
        writer = None
        if self._flavour.writes_breakpad_info:
            writer = ids[-1] if random.random() < 0.5 else None
            if writer is not None:
                bottom = Memory(self._stack_top(n_threads) - 64, random.randbytes(64))
                threads.append(Thread(writer, bottom, amd64_context({"rsp": bottom.start})))
                answers.append({"thread_id": writer, "frame_count": 0, "frames": []})
        cause = self._cause(site)
        exception, address = self._exception(cause, ids[crashing], stacks[crashing])
        system, os_version = random.choice(self._flavour.systems)
        raw_crash = make_raw_crash(random, self._flavour)
        dump = Dump(
            system,
            threads,
            [module.loaded for module in world.modules],
            exception,
            breakpad=(writer, ids[crashing]) if self._flavour.writes_breakpad_info else None,
            process_id=random.randrange(2, 32_768),
            timestamp=int(raw_crash["CrashTime"]),
            full_memory=self._flavour.platform == WINDOWS and random.random() < 0.2,
            padded_lists=random.random() < 0.3,
        )
        expected = {
            "status": "OK",
            "system_info": {
                "os": self._flavour.long_name,
                "os_ver": os_version,
                "cpu_arch": "amd64",
                "cpu_count": system.n_cpus,
            },
            "crash_info": {
                "type": cause.reason,
                "address": f"0x{address:016x}",
                "crashing_thread": crashing,
            },
            "thread_count": len(threads),
            "threads": answers,
            "modules": self._expected_modules(),
            "main_module": 0,
        }
        return SyntheticCrash(write_minidump(dump), expected, raw_crash)

    def _crash_chain(self, site: CrashSite, thread: int) -> tuple[Code, ...]:
        """Return the frames of the site, some random frames, and the outermost ones of the thread."""
        tail = self._world.main_tail if thread == 0 else self._world.thread_tail
        room = _MAX_FRAMES - len(site.chain) - len(tail)
        n_between = min(int(self._random.expovariate(1 / 9)), room)
        if site.kind == "overflow":
            n_between = room
        engine = self._world.engine
        assert engine.symbols is not None
        between: Sequence[Code] = [
            (engine, self._random.choice(engine.symbols.functions)) for _ in range(n_between)
        ]
        return (*site.chain, *between, *tail)

    def _idle_chain(self, thread: int) -> tuple[Code, ...]:
        wait = self._random.choice(self._world.waits)
        if thread == 0:  # the main thread waits in its own loop
            return (*wait[:2], *self._world.main_tail)
        return wait

    def _stack(self, thread: int, chain: tuple[Code, ...]) -> CraftedStack:
        return craft_stack(self._random, self._flavour, self._world.modules, chain, self._stack_top(thread))

    def _stack_top(self, thread: int) -> int:
        return self._flavour.stack_top - thread * _STACK_SPACING

    def _cause(self, site: CrashSite) -> Cause:
        match site.kind:
            case "abort":
                return self._flavour.abort
            case "null":
                return self._flavour.null_read
            case "overflow":
                return self._flavour.stack_overflow
        return self._random.choice(self._flavour.causes)

    def _exception(self, cause: Cause, thread_id: int, stack: CraftedStack) -> tuple[ExceptionRecord, int]:
        """Return the exception record, and the crash address that results from it."""
        instruction = stack.registers["rip"]
        match cause.address:
            case "null":
                address = self._random.choice((0, 0, 0, 8, 0x18, 0x40))
            case "code":
                address = instruction
            case _:
                address = self._flavour.heap + self._random.getrandbits(34)
        parameters = list(cause.parameters)
        raised_at = address
        if cause.address_parameter is not None:
            parameters[cause.address_parameter] = address
            raised_at = instruction
        context = amd64_context(stack.registers)
        record = ExceptionRecord(thread_id, cause.code, cause.flags, raised_at, tuple(parameters), context)
        return record, address

    def _expected_modules(self) -> list[dict[str, str]]:
        return [
            {
                "filename": module.name,
                "base_addr": f"0x{module.loaded.base:016x}",
                "end_addr": f"0x{module.loaded.base + module.loaded.size:016x}",
                "debug_file": module.debug_file,
                "debug_id": module.debug_id,
            }
            for module in self._world.modules
        ]
