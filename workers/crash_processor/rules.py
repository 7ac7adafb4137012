"""Rules that convert the annotations of a raw crash to fields of the processed crash.

Annotations come from crashed programs: each one may be missing, misspelt or invalid. For an invalid one, a
rule sets None and adds a note; it never fails the crash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

RawCrash = Mapping[str, Any]
Processed = dict[str, Any]
Notes = list[str]
Rule = Callable[[RawCrash, Processed, Notes], None]

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_BETA = re.compile(r"(\d+\.\d+(?:\.\d+)?)b(\d{1,9})$")
_URL_USER = re.compile(r"//[^/@\s]*@")
_PRODUCTS_BY_ID = {"{waterwolf@example.org}": "WaterWolf", "{nightfox@example.org}": "Nightfox"}
_MAX_TEXT = 10_000


def _number(raw: RawCrash, name: str, notes: Notes) -> int | None:
    text = raw.get(name)
    if text in (None, ""):
        return None
    try:
        return int(float(str(text)))
    except (ValueError, OverflowError):
        notes.append(f"{name} is not a number: {str(text)[:40]!r}")
        return None


def product(raw: RawCrash, processed: Processed, notes: Notes) -> None:
    """Set product, version, channel and build; some products have only an id."""
    name = _PRODUCTS_BY_ID.get(str(raw.get("ProductID", "")).lower()) or str(raw.get("ProductName", ""))
    if not name:
        notes.append("ProductName is missing")
    processed["product"] = name
    processed["version"] = str(raw.get("Version", ""))
    processed["release_channel"] = str(raw.get("ReleaseChannel", "")).lower()
    processed["build"] = str(raw.get("BuildID", ""))


def beta_version(_raw: RawCrash, processed: Processed, _notes: Notes) -> None:
    """Split a beta version: ``3.0b7`` is release 3.0, beta 7."""
    match = _BETA.match(processed["version"])
    processed["release"] = match[1] if match else processed["version"]
    processed["beta_number"] = int(match[2]) if match else None


def user_data(raw: RawCrash, processed: Processed, notes: Notes) -> None:
    """Set comments, email and URL of the user; remove credentials from the URL."""
    processed["user_comments"] = str(raw.get("Comments", ""))[:_MAX_TEXT] or None
    email = str(raw.get("Email", "")).strip()
    if email and not _EMAIL.fullmatch(email):
        notes.append("Email is not one")
        email = ""
    processed["email"] = email or None
    url = str(raw.get("URL", ""))[:_MAX_TEXT]
    if _URL_USER.search(url):
        notes.append("credentials removed from URL")
        url = _URL_USER.sub("//", url)
    processed["url"] = url or None


def dates(raw: RawCrash, processed: Processed, notes: Notes) -> None:
    """Set the time of the crash, the uptime and the age of the installation in seconds, never negative."""
    crash_time = _number(raw, "CrashTime", notes)
    startup_time = _number(raw, "StartupTime", notes)
    install_time = _number(raw, "InstallTime", notes)
    processed["crash_time"] = crash_time
    processed["client_crash_date"] = _iso_date(crash_time, notes)
    for name, since in (("uptime", startup_time), ("install_age", install_time)):
        age = None if crash_time is None or since is None else crash_time - since
        if age is not None and age < 0:
            notes.append(f"{name} is negative: {age}")
            age = 0
        processed[name] = age
    processed["last_crash"] = _number(raw, "SecondsSinceLastCrash", notes)


def _iso_date(seconds: int | None, notes: Notes) -> str | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        notes.append(f"CrashTime is out of range: {seconds}")
        return None


def process_type(raw: RawCrash, processed: Processed, _notes: Notes) -> None:
    """Set the type of the crashed process; an empty annotation means the parent."""
    processed["process_type"] = str(raw.get("ProcessType", "")) or "parent"
    processed["hang_type"] = {"1": "hang", "-1": "chromehang"}.get(str(raw.get("Hang", "")))


def addons(raw: RawCrash, processed: Processed, notes: Notes) -> None:
    """Parse add-ons: ``id:version,id:version``, with both parts quoted as in a URL."""
    from urllib.parse import unquote  # 4 ms of start-up, only needed for add-ons

    found = []
    for entry in str(raw.get("Add-ons", "")).split(","):
        if entry:
            name, colon, version = entry.partition(":")
            if not colon:
                notes.append(f"add-on without a version: {name[:60]!r}")
            found.append({"id": unquote(name), "version": unquote(version) or "NO_VERSION"})
    processed["addons"] = found


def memory(raw: RawCrash, processed: Processed, notes: Notes) -> None:
    """Set the sizes of memory, and of the allocation that failed."""
    for name in ("TotalVirtualMemory", "AvailableVirtualMemory", "AvailablePageFile",
    "AvailablePhysicalMemory",
                 "OOMAllocationSize", "SystemMemoryUsePercentage"):  # fmt: skip
        processed[_snake_case(name)] = _number(raw, name, notes)
    percentage = processed["system_memory_use_percentage"]
    if percentage is not None and not 0 <= percentage <= 100:
        notes.append(f"SystemMemoryUsePercentage is out of range: {percentage}")
        processed["system_memory_use_percentage"] = None


def reasons(raw: RawCrash, processed: Processed, _notes: Notes) -> None:
    """Set the messages of the program about its end."""
    for name in ("AbortMessage", "MozCrashReason", "AsyncShutdownTimeout", "IPCChannelError"):
        text = str(raw.get(name, "")).strip()
        processed[_snake_case(name)] = text[:_MAX_TEXT] or None


def graphics(raw: RawCrash, processed: Processed, _notes: Notes) -> None:
    """Set graphics adapter and driver, from the free text if there are no annotations."""
    notes_text = str(raw.get("Notes", ""))
    for key, annotation, label in (
        ("adapter_vendor_id", "AdapterVendorID", "AdapterVendorID"),
        ("adapter_device_id", "AdapterDeviceID", "AdapterDeviceID"),
        ("adapter_driver_version", "AdapterDriverVersion", "AdapterDriverVersion"),
    ):
        match = re.search(rf"{label}: ?([^\s,]+)", notes_text)
        processed[key] = str(raw.get(annotation, "")) or (match[1] if match else None)
    processed["app_notes"] = notes_text[:_MAX_TEXT] or None


RULES: tuple[Rule, ...] = (
    product,
    beta_version,
    user_data,
    dates,
    process_type,
    addons,
    memory,
    reasons,
    graphics,
)


def apply_rules(raw_crash: RawCrash, notes: Notes) -> Processed:
    """Return the fields from the raw crash; add problems to *notes*."""
    processed: Processed = {}
    for rule in RULES:
        rule(raw_crash, processed, notes)
    return processed


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
