"""Holds a bill of materials against CycloneDX's own schema; exit code 1 and the first fault when it is none.

.venv-audit/bin/python requirements/sbom_is_valid.py dist/tuner-VERSION.cdx.json
"""

from __future__ import annotations

import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def main() -> int:
    """Validate the one file that is named."""
    path = Path(sys.argv[1])
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(path.read_text(encoding="utf-8"))
    if fault is not None:
        sys.stderr.write(f"Error: {path} is no CycloneDX 1.6: {fault.data.message}\n")
        return 1
    sys.stdout.write(f"{path}: CycloneDX 1.6\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
