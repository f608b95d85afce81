"""Settings of queues: shown, changed, and what a change does to puts."""

from enum import IntEnum
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from procedure_calls import QUEUE_FULL, QUEUE_NOT_EXISTING, Calls, Client, Element, Put
from telesto.protocol.queue_settings import QUEUE_SETTINGS, QueueSetting

NO_QUEUE = 1 << 40


def settings(calls: Calls, queue: int) -> dict[str, Any]:
    row = calls.row("get_queue_settings", queue)
    assert row["error"] is None
    found: dict[str, Any] = row["settings"]
    return found


def update(calls: Calls, queue: int, **changed: Any) -> int | None:
    error: int | None = calls.numbered("update_queue", calls.register(), queue, Jsonb(changed))["error"]
    return error


def column(setting: QueueSetting, value: Any) -> Any:
    """What the column of a setting holds for a value of the wire."""
    return setting.type(value).name.lower() if issubclass(setting.type, IntEnum) else value


def test_the_columns_are_the_settings_of_the_specification_with_its_defaults(calls: Calls) -> None:
    queue = calls.create_queue(calls.register())
    columns = calls.query(
        "SELECT attname::text, attnotnull FROM pg_attribute"
        " WHERE attrelid = 'telesto.queues'::regclass AND attnum > 0 AND NOT attisdropped"
    )
    needed = {row["attname"]: row["attnotnull"] for row in columns}
    assert {name: needed[name] for name in needed.keys() - {"queue_id", "name", "created_at", "user_id"}} == {
        name: not setting.without for name, setting in QUEUE_SETTINGS.items()
    }
    assert settings(calls, queue) == {
        name: column(setting, setting.default) if setting.default is not None else None
        for name, setting in QUEUE_SETTINGS.items()
    }


@pytest.mark.parametrize("setting", QUEUE_SETTINGS.values(), ids=QUEUE_SETTINGS)
def test_a_column_takes_what_the_specification_allows_and_nothing_else(
    calls: Calls, setting: QueueSetting
) -> None:
    queue = calls.create_queue(calls.register())
    name = setting.name
    if setting.type is bool:
        good, bad = [False, True], ["perhaps"]
    elif setting.unit == "queue":
        good, bad = [calls.create_queue(calls.register())], []
    elif setting.type is int:
        good, bad = [setting.least, setting.most], [setting.least - 1, setting.most + 1]
    else:
        good, bad = [column(setting, member) for member in setting.type], ["everything"]
    for value in good:
        assert update(calls, queue, **{name: value}) is None
        assert settings(calls, queue)[name] == value
    for value in bad if setting.without else [*bad, None]:
        with pytest.raises(psycopg.Error) as refused:
            update(calls, queue, **{name: value})
        assert isinstance(refused.value, (psycopg.errors.IntegrityError, psycopg.errors.DataError))
    assert settings(calls, queue)[name] == good[-1]
    if setting.without:
        assert update(calls, queue, **{name: None}) is None
        assert settings(calls, queue)[name] is None


def test_what_is_not_given_stays(calls: Calls) -> None:
    queue = calls.create_queue(calls.register(), max_messages=5)
    before = settings(calls, queue)
    assert update(calls, queue) is None
    assert settings(calls, queue) == before
    assert update(calls, queue, max_messages=7) is None
    assert settings(calls, queue) == {**before, "max_messages": 7}
    assert update(calls, queue, max_messages=None) is None
    assert settings(calls, queue)["max_messages"] is None


def test_only_settings_can_be_changed(calls: Calls) -> None:
    queue = calls.create_queue(calls.register(), name="orders")
    assert update(calls, queue, queue_id=queue + 1, name="other", created_at="-infinity") is None
    assert calls.row("get_queue_id", "orders") == {"error": None, "queue_id": queue}


def test_a_queue_that_is_not_there_is_told_and_recorded(calls: Calls) -> None:
    assert update(calls, NO_QUEUE, max_messages=1) == QUEUE_NOT_EXISTING
    assert calls.row("get_queue_settings", NO_QUEUE) == {"error": QUEUE_NOT_EXISTING, "settings": None}
    client = calls.register()
    calls.numbered("update_queue", client, NO_QUEUE, Jsonb({}))
    assert calls.operations(client) == [(1, 1, [0], [QUEUE_NOT_EXISTING])]


def test_what_the_middleware_should_have_refused_is_refused(calls: Calls) -> None:
    queue = calls.create_queue(calls.register())
    with pytest.raises(psycopg.errors.CheckViolation):
        update(calls, queue, max_messages=0)
    with pytest.raises(psycopg.errors.DataError):
        update(calls, queue, max_messages="many")


def test_a_bound_below_the_depth_refuses_until_there_is_space(
    calls: Calls, client: Client, queue: int
) -> None:
    calls.put_bodies(client, queue, b"1", b"2", b"3")
    assert update(calls, queue, max_messages=2) is None
    assert calls.put([Put(client, [Element(queue)])])[0].errors == [QUEUE_FULL]
    calls.take_one(client, queue)
    assert calls.put([Put(client, [Element(queue)])])[0].errors == [QUEUE_FULL]
    calls.take_one(client, queue)
    calls.put_bodies(client, queue, b"4")
    assert calls.statistics(queue)["depth"] == 2
