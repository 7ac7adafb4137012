"""A tuner to be killed: feeds one launch, says the pid of the feeding process, and waits.

Arguments: the url, the form, the queue, the sample, a folder.
"""

import sys
import time
from pathlib import Path

from tuner.adapters.feeders.queue import Fed, QueueFeeder
from tuner.adapters.queues.queue import Claim
from tuner.core.domain.layout import Layout


def main(url: str, form: str, queue: str, sample: str, folder: str) -> None:
    feeder = QueueFeeder(
        Fed(url, form, queue, Path(sample), timeout_s=30.0),
        Claim("ours", "ours.tuner.db", "here"),
        Path(folder) / "queue.state",
        Path(folder),
        lambda slug, text: sys.stderr.write(f"{slug} {text}\n"),
    )
    with feeder.feeding(Layout(1, 1)):
        sys.stdout.write(f"{next(iter(feeder.pids()))}\n")
        sys.stdout.flush()
        time.sleep(600)


main(*sys.argv[1:])
