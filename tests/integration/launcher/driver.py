"""A tuner to be killed: runs one launch, says its pids on stdout, and waits inside the ``with`` block.

Arguments: how it ends by itself ("sleep" or "raise"), the layout, the command of the worker. Launches get
cgroups of their own below the one that DRIVER_CGROUPS names, if it does, and freezers of version 1 below that
of DRIVER_FREEZERS. With DRIVER_FREEZES the launch is frozen once each worker has noted that it is there, in
the folder that it names.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from tuner.adapters.clock import SystemClock
from tuner.adapters.host_lock import hold_host
from tuner.adapters.supervisord.launcher import SupervisordLauncher
from tuner.core.domain.layout import parse_layout
from tuner.core.domain.service import ServiceSpec


def _folder(variable: str) -> Path | None:
    return Path(os.environ[variable]) if variable in os.environ else None


def main(how: str, layout: str, *command: str) -> None:
    scratch = Path(tempfile.mkdtemp(prefix="scratch-"))
    (scratch / "file").touch()
    spec = ServiceSpec("driven", command, stop_wait_s=1.0)
    with (
        hold_host("driven") as lock,
        SupervisordLauncher(
            spec,
            cores=2,
            cpus=None,
            run_root=None,
            clock=SystemClock(),
            marker=f"driver-{time.monotonic_ns()}",
            keep_logs=None,
            warn=lambda slug, text: sys.stderr.write(f"{slug} {text}\n"),
            held=[lock],
            scratch=[scratch],
            cgroups=_folder("DRIVER_CGROUPS"),
            freezers=_folder("DRIVER_FREEZERS"),
        ) as launcher,
        launcher.running(parse_layout(layout), {}) as launch,
    ):
        guardian = launcher.guardian_pid
        supervisord = next(iter(launch.overhead_pids() - {guardian}))
        if (folder := _folder("DRIVER_FREEZES")) is not None:
            while len(list(folder.glob("*.[0-9]*"))) < int(os.environ["DRIVER_NOTES"]):
                time.sleep(0.02)
            launch.freeze()
        words = {"workers": sorted(launch.worker_pids()), "guardian": guardian, "supervisord": supervisord}
        sys.stdout.write(json.dumps(words) + "\n")
        sys.stdout.flush()
        if how == "raise":
            raise RuntimeError("as asked")
        time.sleep(120)


if __name__ == "__main__":
    main(*sys.argv[1:])
