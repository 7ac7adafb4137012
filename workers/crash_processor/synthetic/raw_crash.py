"""Raw crashes: annotations that a crash reporter sends with a dump, all as text."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from uuid import UUID

from .flavours import Flavour

_FIRST_CRASH_AT = 1_717_200_000  #: 2024-06-01 00:00 UTC; fixed, so that equal seeds give equal bytes
_SPAN_S = 14 * 86_400
_VERSIONS = (
    ("126.0.1", "20240526221752", "release", 60),
    ("127.0", "20240606181944", "release", 20),
    ("127.0b9", "20240603091432", "beta", 12),
    ("128.0a1", "20240601093025", "nightly", 6),
    ("115.11.0esr", "20240506171425", "esr", 2),
)
_PROCESS_TYPES = ("parent", "content", "gpu", "utility")
_COMMENTS = (
    "",
    "",
    "",
    "",
    "it crashed when I closed the window",
    "again, third time today",
    "playing a video",
)
_URLS = ("", "", "https://example.com/", "https://example.org/watch?v=1", "about:blank")


def make_raw_crash(random: Random, flavour: Flavour) -> dict[str, str]:
    """Return the annotations of one crash, with a Socorro crash id as its uuid (it ends in the date)."""
    version, build, channel, _ = random.choices(_VERSIONS, [weight for *_, weight in _VERSIONS])[0]
    crashed_at = _FIRST_CRASH_AT + random.randrange(_SPAN_S)
    uptime = int(random.expovariate(1 / 3600)) + 1
    day = datetime.fromtimestamp(crashed_at, UTC)
    identifier = str(UUID(int=random.getrandbits(128), version=4))
    physical = random.choice((4, 8, 16, 32)) << 30
    available = random.randrange(physical // 2)
    raw_crash = {
        "uuid": f"{identifier[:-7]}0{day:%y%m%d}",
        "ProductName": "WaterWolf",
        "ProductID": "{a1b2c3d4-0f0e-4d0c-8b0a-5e6f7a8b9c0d}",
        "Vendor": "Example",
        "Version": version,
        "BuildID": build,
        "ReleaseChannel": channel,
        "ProcessType": random.choices(_PROCESS_TYPES, (50, 40, 6, 4))[0],
        "CrashTime": str(crashed_at),
        "StartupTime": str(crashed_at - uptime),
        "InstallTime": str(crashed_at - uptime - random.randrange(90 * 86_400)),
        "SecondsSinceLastCrash": str(random.randrange(10**6)),
        "UptimeTS": f"{uptime}.{random.randrange(1000):03d}",
        "submitted_timestamp": datetime.fromtimestamp(crashed_at + 40, UTC).isoformat(),
        "Throttleable": "1",
        "legacy_processing": "0",
        "AdapterVendorID": random.choice(("0x8086", "0x10de", "0x1002")),
        "AdapterDeviceID": f"0x{random.getrandbits(16):04x}",
        "TotalPhysicalMemory": str(physical),
        "AvailablePhysicalMemory": str(available),
        "SystemMemoryUsePercentage": str(100 - 100 * available // physical),
        "Add-ons": "adblock%40example.com:3.2,langpack-de%40example.com:127.0",
        "Comments": random.choice(_COMMENTS),
        "URL": random.choice(_URLS),
        "useragent_locale": random.choice(("en-US", "de", "fr", "ja", "pt-BR")),
        "Notes": f"{flavour.long_name}; WR? WR+",
    }
    return {key: value for key, value in raw_crash.items() if value}
