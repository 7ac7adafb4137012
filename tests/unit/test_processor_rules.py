"""Rules and classifiers: nonsense gives a note, never an error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner_workers.crash_processor.classifiers import CLASSIFIERS, classify
from tuner_workers.crash_processor.rules import apply_rules

from ..wording import wording

ANNOTATIONS = ("ProductName", "Version", "CrashTime", "StartupTime", "InstallTime", "Add-ons", "Email", "URL",
               "OOMAllocationSize", "SystemMemoryUsePercentage", "Notes", "Hang", "AbortMessage")  # fmt: skip


def _rules(**raw_crash: str) -> tuple[dict[str, Any], list[str]]:
    notes: list[str] = []
    return apply_rules({"ProductName": "WaterWolf", **raw_crash}, notes), notes


def test_a_beta_belongs_to_its_release() -> None:
    processed, _ = _rules(Version="127.0b9")

    assert (processed["release"], processed["beta_number"]) == ("127.0", 9)


def test_ages_are_counted_from_the_crash() -> None:
    processed, notes = _rules(CrashTime="1718139601", StartupTime="1718139000", InstallTime="1718000000")

    assert (processed["uptime"], processed["install_age"]) == (601, 139601)
    assert processed["client_crash_date"] == "2024-06-11T21:00:01+00:00"
    assert notes == []


def test_a_clock_that_went_back_gives_no_negative_age() -> None:
    processed, notes = _rules(CrashTime="100", StartupTime="200")

    assert processed["uptime"] == 0
    assert notes == [wording("crash-processor.negative-uptime")]


def test_credentials_in_a_url_are_not_kept() -> None:
    processed, notes = _rules(URL="https://anna:secret@example.org/x?y=a@b")

    assert processed["url"] == "https://example.org/x?y=a@b"
    assert notes == [wording("crash-processor.credentials-removed")]


def test_addons_are_unquoted_and_split() -> None:
    processed, notes = _rules(**{"Add-ons": "adblock%40example.com:3.2,plain"})

    assert processed["addons"] == [
        {"id": "adblock@example.com", "version": "3.2"},
        {"id": "plain", "version": "NO_VERSION"},
    ]
    assert notes == [wording("crash-processor.add-on-without-version")]


def test_a_driver_is_found_in_free_text() -> None:
    processed, _ = _rules(Notes="AdapterVendorID: 0x10de, AdapterDeviceID: 0x1234, more")

    assert (processed["adapter_vendor_id"], processed["adapter_device_id"]) == ("0x10de", "0x1234")


def test_a_number_that_is_none_is_noted() -> None:
    processed, notes = _rules(OOMAllocationSize="lots")

    assert processed["oom_allocation_size"] is None
    assert notes == [wording("crash-processor.oom-size-no-number")]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # busy boxes
@given(
    st.dictionaries(
        st.sampled_from(ANNOTATIONS), st.text(max_size=40) | st.sampled_from(["inf", "nan", "-1", "1e99"])
    )
)
def test_no_annotation_makes_a_rule_fail(raw_crash: dict[str, str]) -> None:
    processed = apply_rules(raw_crash, [])

    assert processed["uptime"] is None or processed["uptime"] >= 0


def test_a_beta_of_thousands_of_digits_is_none() -> None:
    processed = apply_rules({"ProductName": "WaterWolf", "Version": f"3.0b{'9' * 5000}"}, [])

    assert processed["beta_number"] is None


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("0x0", "null"), ("0x8", "null"), ("0x1000", "near null"), ("0x00000000e5e5e5e5", "poison"),
        ("0xe5e5e5e5e5e5e5e5", "poison"), ("0xffffffffffffff00", "non-canonical"),
        ("0x0000400000000000", "single bit"), ("0x00007f1234567890", "wild"), (None, "unknown"),
        ("?", "unknown"),
    ],
)  # fmt: skip
def test_an_address_is_called_by_what_it_looks_like(address: str | None, kind: str) -> None:
    assert classify({"crash_info": {"address": address}}, [])["address_class"] == kind


@pytest.mark.parametrize(
    ("crash_type", "address", "module", "rating"),
    [
        ("SIGSEGV / SEGV_MAPERR", "0x8", "app", "none"),
        ("EXCEPTION_ACCESS_VIOLATION_EXEC", "0x0", "app", "low"),
        ("EXCEPTION_ACCESS_VIOLATION_EXEC", "0x7f1234567890", "app", "high"),
        ("SIGSEGV / SEGV_MAPERR", "0x7f1234567890", None, "high"),
        ("SIGSEGV / SEGV_MAPERR", "0xe5e5e5e5e5e5e5e5", "app", "high"),
        ("EXCEPTION_ACCESS_VIOLATION_WRITE", "0x7f1234567890", "app", "medium"),
        ("EXCEPTION_ACCESS_VIOLATION_READ", "0x7f1234567890", "app", "low"),
        ("SIGFPE / FPE_INTDIV", "0x7f1234567890", "app", "none"),
    ],
)
def test_exploitability_rises_with_what_an_attacker_could_choose(
    crash_type: str, address: str, module: str | None, rating: str
) -> None:
    dump = {"crash_info": {"type": crash_type, "address": address}}

    assert classify(dump, [{"module": module}])["exploitability"] == rating


def test_the_function_that_fills_the_stack_is_named() -> None:
    frames = [{"function": "ns::Deep()"}] * 24 + [{"function": "main"}]

    assert classify({}, frames)["recursion"] == "ns::Deep()"
    assert classify({}, frames[20:])["recursion"] is None


def test_the_topmost_source_file_is_relative_to_its_repository() -> None:
    paths = {
        "/builds/worker/waterwolf/dom/base/Node.cpp": "dom/base/Node.cpp",
        "hg:hg.example.org/central:dom/base/Node.cpp:abc123": "dom/base/Node.cpp",
        "/usr/src/other.c": "/usr/src/other.c",
    }
    found = {path: classify({}, [{"file": None}, {"file": path}])["topmost_source_file"] for path in paths}

    assert found == paths


def test_every_classifier_answers_when_nothing_is_known() -> None:
    assert classify({}, []).keys() == CLASSIFIERS.keys()
