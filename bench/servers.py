"""Cost of reading servers and of feeding queues: CPU of one reading, and of one message.

    python bench/servers.py [WHAT ...] [--readings 1000] [--messages 10000] [--services .venv-services]

WHAT: redis, postgresql, rabbitmq, uwsgi; all of them by default. The bench starts each server, which must be
installed (uWSGI: `make services`). Readings are made without a pause; figures are means, without the CPU of
the server. The cost of feeding is the CPU of the feeding process for a message: it copies a recorded message
and pushes it, 500 at once.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from readings import CLOCK, measure, warn

from tuner.adapters.probes.postgres_database import PostgresDatabase
from tuner.adapters.probes.prometheus import Metric, PrometheusProbe
from tuner.adapters.probes.queue import QueueProbe
from tuner.adapters.probes.redis import RedisProbe, Term
from tuner.adapters.probes.sql import SqlProbe
from tuner.adapters.probes.uwsgi import UwsgiProbe
from tuner.adapters.queues.brokers import open_queue
from tuner.adapters.queues.forms.message import Ids, read_sample
from tuner.adapters.queues.forms.rabbitmq_forms import FORMS as IN_RABBITMQ
from tuner.adapters.queues.forms.redis_forms import FORMS as IN_REDIS
from tuner.adapters.queues.queue import Claim

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the tests know how to start servers
GOLDEN = ROOT / "tests" / "golden"
CLAIM = Claim("bench", "bench.tuner.db", "here")
LONG_S = 60.0
AT_ONCE = 500
PATIENCE_S = 120.0


def feed(url: str, form: str, sample: Path, n_messages: int) -> None:
    """Push clones of a recorded sample, as the process that feeds does."""
    with closing(open_queue(url, form, "bench", CLAIM, LONG_S)) as queue:
        cuts = [queue.cut(message).stamped(1e9) for message in read_sample(sample, form)]
        ids, turn = Ids(queue.tag), cycle(cuts)
        queue.claim()
        began_s = time.process_time()
        for _ in range(n_messages // AT_ONCE):
            new = (ids.next() for _ in range(AT_ONCE))
            queue.push([(one, cut.clone(one)) for one, cut in zip(new, islice(turn, AT_ONCE), strict=True)])
        took_s = time.process_time() - began_s
        queue.release()
    print(f"{f'  {form}, a message fed':48}{1e6 * took_s / (n_messages // AT_ONCE * AT_ONCE):10.1f} us")


def queue_of(url: str, form: str) -> QueueProbe:
    return QueueProbe(CLOCK, url, form, "bench", CLAIM, LONG_S, warn)


def claimed(url: str, form: str, n: int) -> None:
    """Readings of a queue that is fed."""
    with closing(open_queue(url, form, "bench", CLAIM, LONG_S)) as queue:
        queue.claim()
        measure(f"queue, {form}", queue_of(url, form), n)
        queue.release()


def in_redis(options: argparse.Namespace) -> None:
    from redis import Redis

    from tests.redis_server import running_redis

    with running_redis() as server, Redis.from_url(server.url) as client:
        client.rpush("left", *range(100))
        for worker in range(8):
            client.sadd("workers", f"worker:{worker}")
            client.hset(f"worker:{worker}", mapping={"successful_job_count": 7, "state": "busy"})
        asked = {"one length": Term("llen", "left", sign=-1)}
        asked["a field of the hashes of 8 workers"] = Term("smembers_hget", "workers", "successful_job_count")
        for what, term in asked.items():
            falls = term.command == "llen"
            probe = RedisProbe(CLOCK, server.url, [term], [], LONG_S, warn, falls=falls)
            measure(f"redis, {what}", probe, options.readings)
        for form in IN_REDIS:
            claimed(server.url, form, options.readings)
        for form in IN_REDIS:
            feed(server.url, form, GOLDEN / "messages" / f"{form}.json", options.messages)


def in_postgresql(options: argparse.Namespace) -> None:
    from tests.postgres_server import running_postgres

    with running_postgres() as server:
        with server.connect() as connection:
            connection.execute("CREATE TABLE job AS SELECT 'done' AS state FROM generate_series(1, 1000)")
        query = "SELECT count(*) FROM job WHERE state = 'done'"
        database = partial(PostgresDatabase, server.url, LONG_S)
        measure("sql, PostgreSQL", SqlProbe(CLOCK, database, query, None, warn), options.readings)


def in_rabbitmq(options: argparse.Namespace) -> None:
    import amqp

    from tests.rabbitmq_server import running_rabbitmq

    with running_rabbitmq(metrics=True) as server:
        assert server.metrics_url is not None
        with amqp.Connection(f"127.0.0.1:{server.port}") as connection, connection.channel() as channel:
            channel.queue_declare("bench", durable=True, auto_delete=False)
        done = Metric("rabbitmq_global_messages_acknowledged_total")
        page = PrometheusProbe(CLOCK, server.metrics_url, done, None, LONG_S, warn)
        claimed(server.url, "celery", options.readings)
        measure("prometheus, RabbitMQ's page", page, options.readings)
        for form in IN_RABBITMQ:
            feed(server.url, form, GOLDEN / "messages_rabbitmq" / f"{form}.json", options.messages)


def in_uwsgi(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="us-") as name:
        folder = Path(name)
        (folder / "app.py").write_text("def application(environ, answer):\n    answer('200 OK', [])\n")
        command = [str(options.services / "bin" / "uwsgi"), "--socket", "web", "--stats", "stats", "--master"]
        command += ["--processes", "8", "--module", "app", "--die-on-term"]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as server:
            try:
                until((folder / "stats").exists, "uWSGI")
                probe = UwsgiProbe(CLOCK, str(folder / "stats"), LONG_S, warn)
                measure("uwsgi, 8 workers", probe, options.readings)
            finally:
                server.terminate()


def until(is_so: Callable[[], bool], what: str) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > ends_s:
            raise SystemExit(f"{what} does not answer")
        time.sleep(0.05)


SERVERS = {"redis": in_redis, "postgresql": in_postgresql, "rabbitmq": in_rabbitmq, "uwsgi": in_uwsgi}


def main() -> None:
    parser = argparse.ArgumentParser(description="What it costs tuner to ask servers and to feed queues.")
    parser.add_argument("servers", nargs="*", metavar="WHAT", help=", ".join(SERVERS))
    parser.add_argument("--readings", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--services", type=Path, default=ROOT / ".venv-services")
    options = parser.parse_args()
    print(f"{'one reading of':48}{'tuner':>13}{'children':>13}")
    for name in options.servers or SERVERS:
        if name not in SERVERS:
            parser.error(f"no such server: {name}; there are {', '.join(SERVERS)}")
        SERVERS[name](options)


if __name__ == "__main__":
    main()
