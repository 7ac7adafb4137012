"""What clones of real messages differ in: their ids, and where they are sent."""

from __future__ import annotations

import base64
import json
import pickle
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.queues.forms.huey import _parse_fields
from tuner.adapters.queues.forms.message import (
    BODY,
    Ids,
    Message,
    UnclonableError,
    read_sample,
    spread_places,
    study_tag,
    write_sample,
)
from tuner.adapters.queues.forms.rabbitmq_forms import FORMS as RABBITMQ_FORMS
from tuner.adapters.queues.forms.redis_forms import FORMS
from tuner.core.errors import ConfigError

from ..raising import raises
from ..wording import key_of, wording

pytestmark = pytest.mark.pythons

RABBITMQ_MESSAGES = Path(__file__).parents[1] / "golden" / "messages_rabbitmq"
MESSAGES = Path(__file__).parents[1] / "golden" / "messages"
ID = b"01234567-89ab-4cde-8f01-23456789abcd"


def recorded(form: str) -> Message:
    return read_sample(MESSAGES / f"{form}.json", form)[0]


def cloned(form: str, message: Message | None = None, queue: str = "other") -> dict[str, bytes]:
    cut = FORMS[form].cut(recorded(form) if message is None else message, queue)
    return cut.stamped(1_700_000_000.5).clone(ID)


def differences(before: Any, after: Any, below: str = "") -> dict[str, Any]:
    """Path -> new value of all that is not the same in two JSON documents."""
    if isinstance(before, dict) and isinstance(after, dict):
        found: dict[str, Any] = {}
        for name in {*before, *after}:
            found |= differences(before.get(name), after.get(name), f"{below}.{name}".lstrip("."))
        return found
    return {} if before == after else {below: after}


def json_differences(form: str) -> dict[str, Any]:
    return differences(json.loads(recorded(form)[BODY]), json.loads(cloned(form)[BODY]))


def test_a_clone_for_celery_differs_in_its_ids_and_where_it_is_put_back() -> None:
    new = ID.decode()

    assert json_differences("celery") == {
        "headers.id": new,
        "headers.root_id": new,
        "properties.correlation_id": new,
        "properties.delivery_tag": new,
        "properties.reply_to": new,  # nobody waits for its answer
        "properties.delivery_info.routing_key": "other",
    }


def test_a_clone_for_dramatiq_differs_in_its_ids_its_time_and_its_queue() -> None:
    new = ID.decode()

    assert json_differences("dramatiq") == {
        "message_id": new,
        "options.redis_message_id": new,
        "message_timestamp": 1_700_000_000_500,
        "queue_name": "other",
    }


def rabbitmq_differences(form: str, **changes: Any) -> dict[str, Any]:
    message = dict(read_sample(RABBITMQ_MESSAGES / f"{form}.json", form)[0])
    before = json.loads(message["properties"]) | changes
    message["properties"] = json.dumps(before).encode()
    after = RABBITMQ_FORMS[form].cut(message, "other").stamped(1_700_000_000.5).clone(ID)
    return differences(
        {"body": json.loads(message[BODY]), **before},
        {"body": json.loads(after[BODY]), **json.loads(after["properties"])},
    )


def test_a_clone_for_celery_on_rabbitmq_differs_in_its_ids_and_nobody_gets_its_answer() -> None:
    new = ID.decode()

    assert rabbitmq_differences("celery", expiration="60000", user_id="me") == {
        "headers.id": new,
        "headers.root_id": new,
        "correlation_id": new,
        "reply_to": new,
        "priority": None,
        "expiration": None,
        "user_id": None,
    }


def test_a_clone_for_dramatiq_on_rabbitmq_differs_in_its_id_its_time_and_its_queue() -> None:
    assert rabbitmq_differences("dramatiq", headers={"x-death": [{"queue": "default"}], "mine": 1}) == {
        "body.message_id": ID.decode(),
        "body.message_timestamp": 1_700_000_000_500,
        "body.queue_name": "other",
        "headers.x-death": None,
    }


@pytest.mark.parametrize(
    ("part", "value", "why"),
    [
        ("properties", b"{", wording("feeders.no-json-properties")),
        ("properties", b"[]", wording("feeders.no-object-of-properties")),
        ("properties", b"{}", wording("feeders.no-headers")),
        (
            "properties",
            b'{"headers": {"id": "x", "eta": "2030-01-01"}}',
            wording("feeders.waits-for-its-time"),
        ),
        ("properties", b'{"headers": {"task": "t"}}', wording("feeders.first-protocol")),
        ("body", b'[[], {}, {"chain": [1]}]', wording("feeders.sends-others-when-done")),
        ("unkept", b"bytes", wording("feeders.cannot-keep-bytes")),
    ],
    ids=key_of,
)
def test_a_message_of_rabbitmq_that_cannot_be_cloned_says_why(part: str, value: bytes, why: str) -> None:
    message = read_sample(RABBITMQ_MESSAGES / "celery.json", "celery")[0]

    with raises(UnclonableError, why):
        RABBITMQ_FORMS["celery"].cut({**message, part: value}, "q")


@pytest.mark.parametrize("form", list(RABBITMQ_FORMS))
def test_a_sample_of_redis_is_none_of_rabbitmq_nor_the_other_way_round(form: str) -> None:
    with raises(UnclonableError, wording("feeders.not-recorded-from-rabbitmq")):
        RABBITMQ_FORMS[form].cut(recorded(form), "q")
    (message, *_) = read_sample(RABBITMQ_MESSAGES / "celery.json", "celery")
    with pytest.raises(UnclonableError):
        FORMS["celery"].cut(message, "q")


def test_a_clone_for_taskiq_differs_in_its_id() -> None:
    assert json_differences("taskiq") == {"task_id": ID.decode()}


def test_a_clone_for_rq_differs_in_its_queue_as_its_id_is_the_name_of_its_hash() -> None:
    before, after = recorded("rq"), cloned("rq")

    assert {name for name in {*before, *after} if before.get(name) != after.get(name)} == {"origin"}
    assert after["origin"] == b"other"


def test_a_clone_for_arq_is_the_same_as_its_id_is_its_name() -> None:
    assert cloned("arq") == recorded("arq")


def test_a_clone_for_saq_differs_in_its_key_its_time_and_its_queue() -> None:
    assert json_differences("saq") == {
        "key": ID.decode(),
        "queued": 1_700_000_000_500,
        "queue": "other",
    }


def test_a_clone_for_saq_was_not_tried_yet() -> None:
    tried = changed("saq", attempts=2, started=5, touched=6, error="boom", worker_id="w", status="active")

    assert cloned("saq", tried) == cloned("saq")


def test_a_clone_for_streaq_is_the_same_as_its_id_is_its_key() -> None:
    signed = {BODY: recorded("streaq")[BODY] + bytes(32)}

    assert cloned("streaq") == recorded("streaq")
    assert cloned("streaq", signed) == signed


def test_a_clone_for_huey_differs_in_its_id() -> None:
    before, after = recorded("huey")[BODY], cloned("huey")[BODY]

    assert _parse_fields(after)[0] == ID.decode()
    assert _parse_fields(after)[1:] == _parse_fields(before)[1:]
    assert len(after) == len(before)


def changed(form: str, **values: Any) -> Message:
    """The recorded message with values set: ``headers__eta=...``."""
    document = json.loads(recorded(form)[BODY])
    for path, value in values.items():
        *way, last = path.split("__")
        place = document
        for name in way:
            place = place[name]
        place[last] = value
    return {BODY: json.dumps(document).encode()}


CHAIN = base64.b64encode(json.dumps([[], {}, {"chain": [{"task": "next"}]}]).encode()).decode()


@pytest.mark.parametrize(
    ("form", "message", "why"),
    [
        (
            "celery",
            changed("celery", headers__eta="2030-01-01T00:00:00"),
            wording("feeders.waits-for-its-time"),
        ),
        ("celery", changed("celery", body=CHAIN), wording("feeders.sends-others-when-done")),
        ("celery", changed("celery", headers={}), wording("feeders.first-protocol")),
        ("celery", {BODY: b"\x80\x04N."}, wording("feeders.no-json")),
        ("celery", {BODY: b"[]"}, wording("feeders.no-json-object")),
        (
            "dramatiq",
            changed("dramatiq", options__pipe_target={"actor": "x"}),
            wording("feeders.sends-others-when-done"),
        ),
        ("taskiq", {BODY: b"\x81\xa7task_id"}, wording("feeders.no-json")),
        ("saq", changed("saq", scheduled=1_900_000_000), wording("feeders.waits-for-its-schedule")),
        ("saq", changed("saq", key=None), wording("feeders.no-job-of-saq")),
        (
            "streaq",
            {BODY: b'{"f": "job", "a": [], "k": {}, "t": 1, "T": "id"}'},
            wording("feeders.other-tasks"),
        ),
        ("streaq", {BODY: pickle.dumps({"f": "job", "A": "id"})}, wording("feeders.other-tasks")),
        ("streaq", {BODY: pickle.dumps(["f"])}, wording("feeders.no-task-of-streaq")),
        ("streaq", {BODY: b'{"function": "job"}'}, wording("feeders.no-task-of-streaq")),
        ("streaq", {BODY: b"\x82\xa1f\xa3job"}, wording("feeders.another-serializer")),
        ("rq", {"data": b"x", "dependency_ids": b'["a"]'}, wording("feeders.depends-on-other-jobs")),
        ("rq", {"status": b"queued"}, wording("feeders.no-job")),
        ("rq", {"data": b"x", "rate_limit_key": b"k"}, wording("feeders.tells-others-when-done")),
        ("celery", {BODY: b"[" * 100_000}, wording("feeders.no-json")),
        ("huey", {BODY: b"\x1f\x8b0123"}, wording("feeders.compressed-or-signed")),
        ("huey", {BODY: pickle.dumps("text")}, wording("feeders.no-message-of-huey")),
    ],
    ids=key_of,
)
def test_what_cannot_be_cloned_says_why(form: str, message: Message, why: str) -> None:
    with raises(UnclonableError, why):
        FORMS[form].cut(message, "q")


_Message = namedtuple(  # as huey makes it: found by pickle under this name
    "_Message", "id name eta retries retry_delay priority args kwargs on_complete on_error"
)
_Newer = namedtuple("_Newer", (*_Message._fields, "expires", "expires_resolved"))
UUID = "a1b2c3d4-0000-4000-8000-123456789abc"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (_Message("mine", "t", None, 0, 0, None, (), {}, None, None), wording("feeders.not-36-characters")),
        (
            _Message(UUID, "t", None, 0, 0, None, (), {}, ("then",), None),
            wording("feeders.sends-others-when-done"),
        ),
        (_Message(UUID, "t", 12.5, 0, 0, None, (), {}, None, None), wording("feeders.waits-for-its-time")),
        (
            _Newer(UUID, "t", None, 0, 0, None, (), {}, None, None, None, 1.5),
            wording("feeders.dropped-when-old"),
        ),
    ],
    ids=key_of,
)
def test_what_of_huey_cannot_be_cloned_says_why(message: Any, why: str) -> None:
    with raises(UnclonableError, why):
        FORMS["huey"].cut({BODY: pickle.dumps(message)}, "q")


class Harmful:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("a message was run",))


def test_looking_into_a_pickle_runs_nothing_of_it() -> None:
    body = pickle.dumps(_Message(UUID, "t", None, 0, 0, None, (Harmful(),), {}, None, None))

    assert FORMS["huey"].cut({BODY: body}, "q").clone(ID)[BODY] == body.replace(UUID.encode(), ID)
    task = pickle.dumps({"f": "job", "a": (Harmful(),), "k": {}, "t": 1})
    assert FORMS["streaq"].cut({BODY: task}, "q").clone(ID)[BODY] == task


def test_an_expiry_is_left_out_as_it_would_have_passed() -> None:
    message = changed("celery", headers__expires="2020-01-01T00:00:00")

    assert json.loads(cloned("celery", message)[BODY])["headers"]["expires"] is None


def test_a_task_that_another_one_started_keeps_its_root() -> None:
    message = changed("celery", headers__root_id="another")

    assert json.loads(cloned("celery", message)[BODY])["headers"]["root_id"] == "another"


def test_ids_are_all_different_and_carry_the_study() -> None:
    tag = study_tag("one")
    ids = [ids.next().decode() for ids in (Ids(tag), Ids(tag)) for _ in range(1000)]

    assert len(set(ids)) == 2000
    assert all(one.startswith(tag) and len(one) == 36 for one in ids)
    assert study_tag("another") != tag


@pytest.mark.parametrize("form", list(FORMS))
def test_a_sample_is_read_as_it_was_written_and_only_its_owner_may(form: str, tmp_path: Path) -> None:
    messages = [recorded(form), {BODY: bytes(range(256))}]

    write_sample(tmp_path / "s.json", form, messages)

    assert read_sample(tmp_path / "s.json", form) == messages
    assert (tmp_path / "s.json").stat().st_mode & 0o777 == 0o600


def test_a_sample_is_never_written_over_another_file(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("mine")

    with raises(ConfigError, wording("feeders.is-there-already")):
        write_sample(tmp_path / "s.json", "celery", [])

    assert (tmp_path / "s.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", wording("feeders.no-sample-or-damaged")),
        ("{}", wording("feeders.no-sample")),
        (
            '{"tuner_sample": 1, "form": "rq", "messages": [{"a": "b"}]}',
            wording("feeders.sample-of-another-form"),
        ),
        ('{"tuner_sample": 1, "form": "celery", "messages": []}', wording("feeders.sample-holds-nothing")),
        ('{"tuner_sample": 1, "form": "celery", "messages": [{"a": {"base64": "?"}}]}', "damaged"),
        ('{"tuner_sample": 1, "form": "celery", "messages": [3]}', "damaged"),
        ('{"tuner_sample": 1, "messages": []}', "damaged"),
    ],
    ids=key_of,
)
def test_a_file_that_is_no_sample_says_so(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(text)

    with raises(ConfigError, why):
        read_sample(tmp_path / "s.json", "celery")


def test_places_are_spread_evenly() -> None:
    assert spread_places(10, 5) == [0, 2, 4, 6, 8]
    assert spread_places(3, 100) == [0, 1, 2]
    assert spread_places(0, 5) == []
