"""One promise, two crash sources: no item is lost, each is done once."""

from __future__ import annotations

import os
import random
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tuner_workers.crash_processor.errors import InputError, SourceLostError
from tuner_workers.crash_processor.fill import enqueue_files
from tuner_workers.crash_processor.sources import CrashSource
from tuner_workers.crash_processor.sources import redis as redis_source
from tuner_workers.crash_processor.sources.fs import FileSystemCrashSource
from tuner_workers.crash_processor.sources.redis import RedisCrashSource, RedisQueue
from tuner_workers.crash_processor.spool import make_spool, spool_status

from ..raising import raises
from ..redis_server import RedisServer
from ..wording import key_of, wording

LONG_S = 30.0


class Bed:
    """A queue, the sources that take from it, and a look from outside."""

    def fill(self, crash_ids: list[str]) -> int:
        raise NotImplementedError

    def source(self, **how: Any) -> CrashSource:
        raise NotImplementedError

    def die(self, source: Any) -> None:
        """What the end of a process does to its source: nothing is put back."""
        raise NotImplementedError

    def status(self) -> dict[str, int]:
        raise NotImplementedError

    def why_dead(self, crash_id: str) -> str:
        raise NotImplementedError


class FileBed(Bed):
    def __init__(self, root: Path) -> None:
        self.root = root
        make_spool(root)

    def fill(self, crash_ids: list[str]) -> int:
        return enqueue_files(self.root)(crash_ids)

    def source(self, **how: Any) -> CrashSource:
        return FileSystemCrashSource(self.root, **how)

    def die(self, source: Any) -> None:
        os.close(source._presence._lock_fd)

    def status(self) -> dict[str, int]:
        return spool_status(self.root)

    def why_dead(self, crash_id: str) -> str:
        return (self.root / "dead" / crash_id).read_text()


class RedisBed(Bed):
    def __init__(self, url: str) -> None:
        self.url = url
        self.queue = RedisQueue(url, "test")
        self.queues = [self.queue]

    def fill(self, crash_ids: list[str]) -> int:
        return self.queue.fill(crash_ids)

    def source(self, **how: Any) -> CrashSource:
        self.queues.append(RedisQueue(self.url, "test"))
        return RedisCrashSource(self.queues[-1], **how)

    def die(self, source: Any) -> None:
        source._queue.close()

    def status(self) -> dict[str, int]:
        return self.queue.status()

    def why_dead(self, crash_id: str) -> str:
        return str(self.queue.call("HGET", "test:dead", crash_id))


@pytest.fixture(params=["fs", pytest.param("redis", marks=pytest.mark.integration)])
def bed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    if request.param == "fs":
        yield FileBed(tmp_path)
        return
    monkeypatch.setattr(redis_source, "_SETTLING_S", 0)  # this server is young all the time
    bed = RedisBed(request.getfixturevalue("redis_server").url)
    yield bed
    for queue in bed.queues:
        queue.close()


def _take(source: CrashSource) -> tuple[str, Any]:
    taken = source.new_crashes()
    assert taken is not None
    return taken


def test_what_is_filled_can_be_taken_once(bed: Bed) -> None:
    bed.fill(["a", "b", "c"])
    source = bed.source()

    assert {_take(source)[0], _take(source)[0], _take(source)[0]} == {"a", "b", "c"}
    assert source.new_crashes() is None
    source.close()


def test_filling_again_adds_nothing_wherever_the_item_stands(bed: Bed) -> None:
    ids = ["new", "taken", "done", "dead", "tried"]
    assert bed.fill(ids[1:]) == 4
    source = bed.source()
    receipts = dict(_take(source) for _ in range(4))
    source.ack(receipts["done"])
    source.reject(receipts["dead"], "no good")
    source.retry(receipts["tried"], "once")

    assert bed.fill(ids) == 1
    assert bed.fill(ids) == 0
    source.close()


def test_an_acknowledged_item_is_done_and_never_comes_again(bed: Bed) -> None:
    bed.fill(["a"])
    source = bed.source()

    assert source.ack(_take(source)[1])
    assert source.new_crashes() is None
    assert (bed.status()["done"], bed.status()["cur"]) == (1, 0)
    source.close()


def test_an_endless_source_offers_what_was_acknowledged_again(bed: Bed) -> None:
    bed.fill(["a"])
    source = bed.source(endless=True)

    for _ in range(3):
        crash_id, receipt = _take(source)
        assert crash_id == "a"
        assert source.ack(receipt)
    assert (bed.status()["new"], bed.status()["done"]) == (1, 0)
    source.close()


def test_a_released_item_can_be_taken_by_another_at_once(bed: Bed) -> None:
    bed.fill(["a"])
    first, second = bed.source(), bed.source()
    first.release(_take(first)[1])

    assert _take(second)[0] == "a"
    first.close()
    second.close()


def test_an_item_that_fails_too_often_is_a_dead_letter_with_the_reason(bed: Bed) -> None:
    bed.fill(["a"])
    source = bed.source(max_attempts=3)

    assert [source.retry(_take(source)[1], "disk full") for _ in range(3)] == [False, False, True]
    assert source.new_crashes() is None
    assert bed.status()["dead"] == 1
    assert bed.why_dead("a").strip() == wording("crash-processor.disk-full-after-attempts")
    source.close()


def test_success_forgets_failed_attempts(bed: Bed) -> None:
    bed.fill(["a"])
    source = bed.source(endless=True, max_attempts=2)
    for _ in range(4):
        assert not source.retry(_take(source)[1], "once")
        assert source.ack(_take(source)[1])

    assert bed.status()["dead"] == 0
    source.close()


def test_attempts_are_counted_over_processes(bed: Bed) -> None:
    bed.fill(["a"])
    for expected in (False, True):
        source = bed.source(max_attempts=2)
        assert source.retry(_take(source)[1], "no") is expected
        source.close()


def test_a_rejected_item_is_dead_at_once(bed: Bed) -> None:
    bed.fill(["a"])
    source = bed.source()
    source.reject(_take(source)[1], "no raw crash")

    assert (bed.status()["dead"], bed.status()["new"], bed.status()["cur"]) == (1, 0, 0)
    assert bed.why_dead("a").strip() == "no raw crash"
    source.close()


def test_depth_counts_what_nobody_has_taken(bed: Bed) -> None:
    bed.fill(["a", "b", "c"])
    source = bed.source()
    _take(source)

    assert source.depth() == 2
    source.close()


def test_closing_puts_back_what_was_held(bed: Bed) -> None:
    bed.fill(["a", "b"])
    source = bed.source()
    _take(source)
    source.close()

    assert (bed.status()["new"], bed.status()["cur"]) == (2, 0)


def test_what_a_dead_process_held_comes_back(bed: Bed) -> None:
    bed.fill(["a", "b"])
    dead = bed.source()
    _take(dead)
    _take(dead)
    bed.die(dead)

    heir = bed.source()
    assert {_take(heir)[0], _take(heir)[0]} == {"a", "b"}
    assert bed.status()["cur"] == 2
    heir.close()


def test_a_living_process_keeps_what_it_holds(bed: Bed) -> None:
    bed.fill(["a"])
    owner = bed.source()
    _, receipt = _take(owner)
    other = bed.source()

    assert other.new_crashes() is None
    assert owner.ack(receipt)
    owner.close()
    other.close()


def test_who_was_taken_for_dead_cannot_finish_what_others_have(bed: Bed) -> None:
    bed.fill(["a"])
    slow = bed.source()
    _, receipt = _take(slow)
    bed.die(slow)
    heir = bed.source()
    _, heirs_receipt = _take(heir)

    assert not slow.ack(receipt)
    slow.release(receipt)
    assert not slow.retry(receipt, "late")
    assert bed.status()["new"] == 0
    assert heir.ack(heirs_receipt)
    assert bed.status()["done"] == 1
    heir.close()


def test_many_threads_of_many_sources_do_each_item_once(bed: Bed) -> None:
    ids = [f"id{n}" for n in range(300)]
    bed.fill(ids)
    sources = [bed.source() for _ in range(4)]
    finished: list[str] = []

    def work(source: CrashSource, seed: int) -> None:
        noise = random.Random(seed)
        while (taken := source.new_crashes()) is not None:
            if noise.random() < 0.1:
                source.release(taken[1])
            elif source.ack(taken[1]):
                finished.append(taken[0])

    threads = [threading.Thread(target=work, args=(source, n)) for n, source in enumerate(sources)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    for source in sources:  # one may have released the last item after the others had gone
        work(source, 99)
        source.close()

    assert sorted(finished) == sorted(ids)
    assert bed.status()["done"] == len(ids)


def test_a_lock_and_not_a_pid_says_who_is_alive(tmp_path: Path) -> None:
    bed = FileBed(tmp_path)
    bed.fill(["a"])
    dead = FileSystemCrashSource(tmp_path)
    _take(dead)
    bed.die(dead)  # its folder names our own pid and start time, and we live

    assert dead._presence.folder.name.split(".")[-2] == str(os.getpid())
    heir = FileSystemCrashSource(tmp_path)
    assert _take(heir)[0] == "a"
    heir.close()


@pytest.mark.integration
def test_a_source_comes_back_to_a_redis_that_was_away(redis_server: RedisServer) -> None:
    queue = RedisQueue(redis_server.url, "test", delays_s=[0.05] * 400)
    source = RedisCrashSource(queue)
    redis_server.stop()
    restart = threading.Timer(0.3, redis_server.start)
    restart.start()

    assert source.new_crashes() is None
    restart.join()
    queue.fill(["a"])
    assert source.ack(_take(source)[1])
    source.close()


@pytest.mark.integration
def test_a_redis_that_stays_away_ends_the_source_with_its_address(redis_server: RedisServer) -> None:
    source = RedisCrashSource(RedisQueue(redis_server.url, "test", delays_s=[0.01]))
    redis_server.stop()

    with raises(SourceLostError, wording("crash-processor.redis-socket-gone")):
        source.new_crashes()


@pytest.mark.integration
def test_an_item_taken_without_our_hearing_of_it_is_put_back(redis_server: RedisServer) -> None:
    queue = RedisQueue(redis_server.url, "test", delays_s=[0.01])
    queue.fill(["kept", "lost"])
    source = RedisCrashSource(queue)
    assert _take(source)[0] == "kept"
    queue.call("LMOVE", "test:new", f"test:cur:{queue.worker}", "RIGHT", "LEFT")  # as if the answer was lost
    queue.close()

    assert source.new_crashes() is None
    assert _take(source)[0] == "lost"
    assert queue.status()["cur"] == 2
    source.close()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("settings", "kind", "problem"),
    [
        (("requirepass", "secret"), InputError, wording("crash-processor.redis-refused")),
        (("maxmemory", "1"), SourceLostError, wording("crash-processor.redis-full")),
    ],
    ids=key_of,
)
def test_a_redis_that_refuses_is_kept_apart_from_one_that_may_recover(
    redis_server: RedisServer, settings: tuple[str, str], kind: type[Exception], problem: str
) -> None:
    filler = RedisQueue(redis_server.url, "test")
    filler.fill(["a"])
    filler.call("CONFIG", "SET", *settings)
    queue = RedisQueue(redis_server.url, "test", delays_s=[0.01])

    with raises(kind, problem):
        RedisCrashSource(queue).new_crashes()
    filler.close()
    queue.close()


@pytest.mark.integration
def test_every_connection_of_a_worker_carries_its_name(redis_server: RedisServer) -> None:
    """Who is alive is seen by these names: one connection without it, and others take the worker's items."""
    watcher = RedisQueue(redis_server.url, "test")
    queue = RedisQueue(f"{redis_server.url}?client_name=odd&db=3&retry_on_timeout=yes", "test")
    for n_connections in (1, 2, 3):
        queue.call("PING")

        assert watcher.connected_workers() == {watcher.worker, queue.worker}
        assert queue.n_connections == n_connections
        watcher.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert watcher.connected_workers() == {watcher.worker}
    queue.close()
    watcher.close()


def test_it_is_tried_as_often_as_the_delays_say_and_no_oftener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes connections and never says a word
        port = server.getsockname()[1]
        settings = "retry_on_timeout=yes&socket_timeout=0.05"  # what redis-py would make of this: two of each
        queue = RedisQueue(f"redis://127.0.0.1:{port}?{settings}", "test", delays_s=[0.01, 0.01])
        with raises(SourceLostError, wording("crash-processor.redis-timeout")):
            queue.call("PING")

        server.setblocking(False)
        for _ in range(3):
            server.accept()[0].close()
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.integration
def test_a_redis_that_is_still_loading_is_waited_for(redis_server: RedisServer) -> None:
    queue = RedisQueue(redis_server.url, "test", delays_s=[0.05] * 400)
    queue.fill(["a"])
    queue.call("CONFIG", "SET", "rdbcompression", "no")
    fill = "for n = 1, 20000 do redis.call('SET', 'ballast' .. n, string.rep('x', 1000)) end"
    queue.call("EVAL", fill, 0)
    queue.call("SAVE")
    redis_server.stop()
    # 20000 times 1 ms, unless it is told otherwise
    redis_server.start("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
    hasty = RedisQueue(redis_server.url, "test")

    with pytest.raises(SourceLostError, match="loading the dataset"):
        hasty.call("LLEN", "test:new")
    hasty.call("CONFIG", "SET", "key-load-delay", "0")
    assert queue.call("LLEN", "test:new") == 1
    hasty.close()
    queue.close()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://localhost", wording("crash-processor.no-url-of-redis")),
        ("localhost:6379", wording("crash-processor.no-url-of-redis")),
        ("redis://localhost:99999", wording("crash-processor.no-url-of-redis")),
        ("unix://", wording("crash-processor.no-socket")),
        ("redis://localhost/x", wording("crash-processor.no-database-number")),
        ("redis://localhost?socket_timeout=soon", wording("crash-processor.invalid-value")),
    ],
    ids=key_of,
)
def test_a_url_that_is_none_of_redis_is_refused(url: str, problem: str) -> None:
    with raises(InputError, problem) as caught:
        RedisQueue(url, "test")
    assert str(caught.value).startswith("--redis-url: ")


def test_a_setting_in_a_url_that_does_not_exist_is_named() -> None:
    with raises(InputError, wording("crash-processor.no-such-setting")) as caught:
        RedisQueue("redis://localhost?colour=blue", "test")
    assert "colour" in str(caught.value).partition(wording("crash-processor.no-such-setting"))[2]


def test_a_password_in_a_url_is_not_shown() -> None:
    with pytest.raises(InputError, match=r"--redis-url: 'http://\*\*\*@localhost' is neither"):
        RedisQueue("http://somebody:sec/ret@localhost", "test")
    with raises(SourceLostError, wording("crash-processor.redis-refused-connection")):
        RedisQueue("rediss://somebody:sec%2Fret@127.0.0.1:1/7", "test").call("PING")


def test_a_folder_that_is_no_spool_is_refused(tmp_path: Path) -> None:
    with raises(InputError, wording("crash-processor.not-a-spool")):
        FileSystemCrashSource(tmp_path)


@pytest.mark.parametrize("removed", ["cur", "cur/*"])
def test_a_source_whose_folder_somebody_removed_makes_another_and_continues(
    tmp_path: Path, removed: str
) -> None:
    bed = FileBed(tmp_path)
    bed.fill(["a"])
    source = FileSystemCrashSource(tmp_path)
    _, receipt = _take(source)
    (folder,) = tmp_path.glob(removed)
    shutil.rmtree(folder)
    bed.fill(["b"])

    assert _take(source) == ("b", "b")
    assert not source.ack(receipt)  # it went with the folder
    other = FileSystemCrashSource(tmp_path)
    assert other.new_crashes() is None  # whoever looks sees that the new folder's owner lives
    assert source.ack("b")
    assert (bed.status()["new"], bed.status()["cur"], bed.status()["done"]) == (0, 0, 1)
    other.close()
    source.close()
    assert os.listdir(tmp_path / "cur") == []


def test_a_source_whose_spool_is_gone_is_lost(tmp_path: Path) -> None:
    bed = FileBed(tmp_path / "spool")
    bed.fill(["a", "b"])
    source = FileSystemCrashSource(bed.root)
    _take(source)  # the other one's name is known from now on
    shutil.rmtree(bed.root)

    with raises(SourceLostError, wording("crash-processor.cannot-take-item", spool=bed.root)):
        source.new_crashes()
    source.close()


def test_a_folder_left_half_made_is_removed_only_when_it_is_old(tmp_path: Path) -> None:
    FileBed(tmp_path)
    young, old = tmp_path / "cur" / ".starting-young", tmp_path / "cur" / ".starting-old"
    young.mkdir()
    old.mkdir()
    os.utime(old, (1, 1))
    FileSystemCrashSource(tmp_path).close()

    assert (young.exists(), old.exists()) == (True, False)


@pytest.mark.parametrize("name", ["a~b", "a~", "a~²", "a~-1"])
def test_an_item_whose_attempts_somebody_misspelt_has_had_none(name: str, tmp_path: Path) -> None:
    FileBed(tmp_path)
    (tmp_path / "new" / name).touch()
    source = FileSystemCrashSource(tmp_path, max_attempts=2)

    assert [source.retry(_take(source)[1], "disk full") for _ in range(2)] == [False, True]
    source.close()
