"""Signatures: what crashes of one cause share, and nothing that differs between them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner_workers.crash_processor.signature import (
    MAX_LENGTH,
    crash_signature,
    frames_signature,
    normalize_frame,
    normalize_function,
)

from ..wording import wording


def _frames(*functions: str) -> list[dict[str, Any]]:
    return [{"function": function, "module": "app"} for function in functions]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("main", "main"),
        ("ns::Class::Method(int, char const*)", "ns::Class::Method"),
        ("void ns::Set<int, 3ul>::Add(int const&) const", "ns::Set<T>::Add"),
        ("std::map<int, std::pair<a, b> >::find(int)", "std::map<T>::find"),
        ("unsigned long ns::Count()", "ns::Count"),
        ("(anonymous namespace)::Helper(int)", "(anonymous namespace)::Helper"),
        ("ns::(anonymous namespace)::Helper(int)", "ns::(anonymous namespace)::Helper"),
        ("ns::Ptr<T>::operator->() const", "ns::Ptr<T>::operator->"),
        ("bool ns::operator<(ns::A const&, ns::A const&)", "ns::operator<"),
        ("ns::Class::operator()(int)::{lambda(void*)#1}::operator()(void*) const",
         "ns::Class::operator()::{lambda#1}::operator()"),
        ("operator new(unsigned long)", "operator new"),
        ("core::ptr::drop_in_place::h0123456789abcdef", "core::ptr::drop_in_place"),
        ("", ""),
        ("broken(", "broken"),
        ("broken<", "broken<T>"),
        (")>", ")>"),
    ],
)  # fmt: skip
def test_a_function_is_named_without_arguments_and_return_type(function: str, name: str) -> None:
    assert normalize_function(function) == name


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # busy boxes
@given(st.text(alphabet="ab:<>(){} ~*&,0operator", max_size=60))
def test_no_function_name_makes_normalizing_fail_or_grow_without_end(function: str) -> None:
    assert len(normalize_function(function)) <= 3 * len(function) + 3


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ({"function": "f(int)", "file": "/src/f.c", "line": 3}, "f"),
        ({"function": "script::vm::Interpret(script::vm::State&)", "line": 77}, "script::vm::Interpret:77"),
        ({"file": "C:\\src\\f.c", "line": 3, "module": "app"}, "f.c#3"),
        ({"module": "/lib/libc.so.6", "module_offset": "0x0000000000032475"}, "libc.so.6@0x32475"),
        ({"offset": "0x00007fce0927b475"}, "@0x7fce0927b475"),
        ({"offset": None}, "@0x0"),
        ({}, "@0x0"),
    ],
)
def test_a_frame_is_named_by_the_best_that_is_known(frame: dict[str, Any], name: str) -> None:
    assert normalize_frame(frame) == name


def test_frames_that_say_nothing_are_skipped() -> None:
    assert frames_signature(_frames("gsignal", "abort", "ns::Broken()")) == "ns::Broken"


def test_frames_that_say_too_little_are_a_prefix() -> None:
    assert frames_signature(_frames("memcpy", "ns::Copy(int)", "ns::Caller()")) == "memcpy | ns::Copy"


def test_what_lies_inside_of_a_sentinel_does_not_matter() -> None:
    assert frames_signature(_frames("ns::Odd()", "_purecall", "ns::Caller()")) == "_purecall"


def test_a_module_without_symbols_is_named_once_and_without_its_inner_offset() -> None:
    frames: list[dict[str, Any]] = [
        {"module": "driver.dll", "module_offset": "0x10"},
        {"module": "driver.dll", "module_offset": "0x20"},
        {"function": "ns::Draw()"},
    ]

    assert frames_signature(frames) == "driver.dll | ns::Draw"


def test_a_stack_of_nothing_but_skipped_frames_keeps_the_innermost() -> None:
    assert frames_signature(_frames("raise", "abort")) == "raise"


def test_no_frames_give_an_empty_signature_that_says_so() -> None:
    assert crash_signature([], {}, "")[0] == wording("crash-processor.signature-no-thread")
    assert crash_signature([], {}, "SIGSEGV")[0] == wording("crash-processor.signature-no-frames")


@pytest.mark.parametrize(
    ("processed", "crash_type", "signature"),
    [
        ({"oom_allocation_size": 4096}, "SIGABRT", "OOM | small | f"),
        ({"oom_allocation_size": 1 << 20}, "SIGABRT", "OOM | large | f"),
        ({"abort_message": "index 17 out of  range"}, "SIGABRT", "Abort | index N out of range | f"),
        ({}, "EXCEPTION_STACK_OVERFLOW", "stackoverflow | f"),
        ({"async_shutdown_timeout": "profile-change 3"}, "", "AsyncShutdownTimeout | profile-change N | f"),
        ({"ipc_channel_error": "ShutDownKill"}, "", "IPCError | ShutDownKill | f"),
        ({"hang_type": "hang", "oom_allocation_size": 1}, "", "hang | OOM | small | f"),
    ],
)
def test_what_is_known_about_the_end_comes_first(
    processed: dict[str, Any], crash_type: str, signature: str
) -> None:
    assert crash_signature(_frames("f"), processed, crash_type)[0] == signature


def test_a_long_signature_is_cut_and_the_cut_is_noted() -> None:
    signature, notes = crash_signature(_frames("f" * 300), {}, "")

    assert (len(signature), signature[-3:]) == (MAX_LENGTH, "...")
    assert notes == ["signature truncated"]
