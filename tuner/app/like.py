"""A new study with the settings of one that was made before: `tuner grid --like`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.errors import ConfigError
from tuner.core.text.secret_names import HIDDEN
from tuner.core.text.stored_config import parse_stored_config

if TYPE_CHECKING:
    from collections.abc import Collection

    from tuner.core.model.profile import Profile

_OWN = ("aa", "check")  #: strategies of studies that rank no layouts


def settings_like(
    file: Path, *, is_alone: bool, of_first_looks: Collection[str]
) -> tuple[dict[str, Any], Profile | None]:
    """The settings that the study in *file* was begun with, and the profile that a simulated one plays.

    Args:
        file: the study.
        is_alone: whether nothing else names the service.
        of_first_looks: names of settings of a study that ``--quick`` sets, which are left out.

    Raises:
        ConfigError: the study is not one of `tuner grid`, or keeps no secrets and nothing else names them.
    """
    from tuner.bootstrap import stores
    from tuner.config.profile import profile_kept
    from tuner.core.domain.simulated import is_simulated

    with stores.open_store(file, read_only=True) as store:
        record = store.study()
    if record.strategy in _OWN:
        what = "a check" if record.strategy == "check" else "a comparison of a layout with itself"
        raise ConfigError(f"--like {file}: the file is {what}", hint="Name a study of tuner grid.")
    if is_alone and HIDDEN in record.config:
        raise ConfigError(
            f"--like {file}: the study does not keep its secrets",
            hint=f"Name its config, or its command, again: tuner grid CONFIG --like {file}",
        )
    kept = parse_stored_config(record.config)
    if record.provenance.get("quick") == "true":
        for name in of_first_looks:
            kept["study"].pop(name, None)
    if not is_simulated(record):
        return kept, None
    profile = profile_kept(record, file)
    return {"study": {**kept["study"], "cores": record.cores}}, profile


def free_name(file: Path) -> Path:
    """The next numbered name beside the study *file* that no file has: ``web.2.tuner.db``."""
    stem = re.sub(r"\.\d+$", "", file.name.removesuffix(".db").removesuffix(".tuner"))
    number = 2
    while (found := file.with_name(f"{stem}.{number}.tuner.db")).exists():
        number += 1
    return found
