"""The same by each way: flat calls and handles of each client, the command line, and puts of tasks."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shells import opening
from started import STARTED
from telesto.client import QueueNotExistingError, TelestoClient
from telesto.tasks import App

PATIENCE_S = 60.0
KINDS = ["blocking", "asyncio", "blocking-durable", "asyncio-durable"]
CLIENTS = [f"{calls} {kind}" for calls in ("flat", "handle") for kind in KINDS]
TASKS = ["put", "put_async", "put_many"]
QUEUE = "orders"
BODY = {"number": 7, "key": "x"}
#: What of a message is compared.
CHOSEN = (
    "message_id",
    "receiver_id",
    "correlation_id",
    "priority",
    "attempt",
    "redelivered",
    "headers",
    "body",
)


class Flat:
    """The client's own calls."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def put(self, body: Any, **options: Any) -> int:
        return int(self._client.put_message(QUEUE, body, **options))

    def get(self) -> dict[str, Any] | None:
        return fields(self._client.retrieve_message(QUEUE, timeout=0))

    def browse(self) -> list[dict[str, Any] | None]:
        return [fields(message) for message in self._client.read_messages(QUEUE)]

    def delete(self) -> None:
        self._client.delete_queue(QUEUE)

    def request(self, body: Any) -> str:
        return str(self._client.send_request_response_message(QUEUE, body, timeout=PATIENCE_S).text)


class Handle(Flat):
    """The verbs of a queue."""

    def put(self, body: Any, **options: Any) -> int:
        return int(self._client.queue(QUEUE).put(body, **options))

    def get(self) -> dict[str, Any] | None:
        return fields(self._client.queue(QUEUE).get(timeout=0))

    def browse(self) -> list[dict[str, Any] | None]:
        return [fields(message) for message in self._client.queue(QUEUE).browse()]

    def delete(self) -> None:
        self._client.queue(QUEUE).delete()

    def request(self, body: Any) -> str:
        return str(self._client.queue(QUEUE).request(body, timeout=PATIENCE_S).text)


class Command:
    """The command line."""

    def __init__(self, url: str, home: Path) -> None:
        self._environment = {**os.environ, "TELESTO_URL": url, "HOME": str(home)}

    def put(self, body: Any, **options: Any) -> int:
        headers = {"content-type": "application/json", **options.pop("headers", {})}
        given = [f"--header={name}={value}" for name, value in headers.items()]
        for name, value in options.items():
            unit = "s" if name in ("delay", "expires") else ""
            shown = value.isoformat() if isinstance(value, datetime) else f"{value}{unit}"
            option = "receiver" if name == "receiver_id" else name.replace("_", "-")
            given.append(f"--{option}={shown}")
        compact = json.dumps(body, separators=(",", ":"))
        (told,) = self._run("put", QUEUE, compact, *given)
        return int(told["message_id"])

    def get(self) -> dict[str, Any] | None:
        told = self._run("get", QUEUE, nothing=4)
        return chosen(told[0]) if told else None

    def browse(self) -> list[dict[str, Any] | None]:
        return [chosen(row) for row in self._run("browse", QUEUE)]

    def delete(self) -> None:
        self._run("queue", "delete", QUEUE, "--yes")

    def _run(self, *arguments: str, nothing: int = 0) -> list[dict[str, Any]]:
        command = [*STARTED, sys.executable, "-m", "telesto.cli.main", *arguments, "--json"]
        result = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        if "there is no queue" in result.stderr:
            raise QueueNotExistingError(result.stderr)
        assert result.returncode in (0, nothing), result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]


class Tasks:
    """The puts of a task, whose arguments are the body."""

    def __init__(self, app: App, how: str) -> None:
        self._app = app
        self._how = how

    def put(self, body: Any, **options: Any) -> int:
        keys = {name: "key" for name in ("partition_key", "dedup_key") if options.pop(name, None)}
        self._app.tasks.clear()

        @self._app.task(queue=QUEUE, **keys)  # type: ignore[typeddict-item]
        def work(number: int, key: str) -> None: ...

        task = work.options(**options)
        if self._how == "put":
            return task.put(**body)
        if self._how == "put_async":
            return asyncio.run(task.put_async(**body))
        (result,) = task.put_many([task.message(**body)])
        assert result.message_id is not None
        return result.message_id


def fields(message: Any) -> dict[str, Any] | None:
    """What a message tells, as the command line shows it."""
    if message is None:
        return None
    return chosen({name: getattr(message, name) for name in CHOSEN} | {"body": message.text})


def chosen(told: dict[str, Any]) -> dict[str, Any]:
    return {name: told[name] for name in CHOSEN}


@pytest.fixture
def reference(real_service_url: str) -> Iterator[TelestoClient]:
    """The client that all are compared with; the queue is there."""
    with TelestoClient(real_service_url) as client:
        client.declare_queue(QUEUE)
        yield client


@pytest.fixture
def way(
    request: pytest.FixtureRequest, real_service_url: str, reference: TelestoClient, tmp_path: Path
) -> Iterator[Any]:
    """One of the ways."""
    kind, _, how = request.param.partition(" ")
    with ExitStack() as stack:
        if kind in ("flat", "handle"):
            client = stack.enter_context(opening(how))(real_service_url, name="one of the ways")
            yield {"flat": Flat, "handle": Handle}[kind](client)
        elif kind == "task":
            app = App(real_service_url)
            stack.callback(app.close)
            yield Tasks(app, how)
        else:
            yield Command(real_service_url, tmp_path)


all_ways = pytest.mark.parametrize(
    "way", [*CLIENTS, "command", *(f"task {how}" for how in TASKS)], indirect=True
)
not_tasks = pytest.mark.parametrize("way", [*CLIENTS, "command"], indirect=True)
clients_only = pytest.mark.parametrize("way", CLIENTS, indirect=True)


def stored(real_service: Any, message_id: int, at: datetime | None) -> dict[str, Any]:
    """What the database has of a message but its id, its sender and when it came.

    Other moments are told in tens of seconds since ``at``, or since it came.
    """
    since = "time_of_arrival" if at is None else f"timestamptz '{at.isoformat()}'"
    found = []
    for table in ("messages", "delayed_messages", "keyed_messages"):
        due_at = "(to_jsonb(row) ->> 'due_at')::timestamptz"
        found += real_service.query(
            f"""SELECT to_jsonb(row) || jsonb_build_object(
                    'table', '{table}', 'body', encode(row.body, 'escape'),
                    'due_at', round(extract(epoch FROM {due_at} - {since}) / 10),
                    'expires_at', round(extract(epoch FROM row.expires_at - {since}) / 10))
                FROM telesto.{table} AS row WHERE message_id = {message_id}"""
        )
    ((row,),) = found
    for name in ("message_id", "sender_id", "client_id", "number", "time_of_arrival"):
        row.pop(name, None)
    row["headers"].pop("task", None)
    row["body"] = json.loads(row["body"])
    return dict(row)


@all_ways
def test_a_put_stores_the_same(way: Any, reference: TelestoClient, real_service: Any) -> None:
    orders = reference.queue(QUEUE)
    every: list[dict[str, Any]] = [
        {},
        {"priority": 9},
        {"delay": 600},
        {"at": datetime.now(UTC) + timedelta(hours=1)},
        {"expires": 500},
        {"headers": {"tenant": "north"}},
        {"partition_key": "x"},
        {"partition_key": "x", "priority": 2, "delay": 60, "expires": 70, "headers": {"a": "", "b": "ü"}},
    ]
    if not isinstance(way, Tasks):
        every += [{"receiver_id": 3}, {"correlation_id": 4, "headers": {"content-type": "text/x-order"}}]
    for options in every:
        by_it, expected = (
            stored(real_service, put(BODY, **options), options.get("at")) for put in (way.put, orders.put)
        )
        assert by_it == expected, options


@all_ways
def test_under_one_key_one_is_put(way: Any, reference: TelestoClient) -> None:
    first = way.put(BODY, dedup_key="x")
    assert way.put(BODY, dedup_key="x") == first
    assert way.put(BODY) > first
    assert reference.queue(QUEUE).statistics().depth == 2


@not_tasks
def test_messages_are_seen_and_taken_alike(way: Any, reference: TelestoClient) -> None:
    orders = reference.queue(QUEUE)
    orders.put("low", priority=1, headers={"tenant": "north"})
    orders.put({"high": 1}, priority=9, correlation_id=4)
    assert way.browse() == [fields(message) for message in orders.browse()]
    for body in ('{"high":1}', "low"):
        expected = [message for message in way.browse() if message["body"] == body]
        taken = way.get()
        assert [taken | {"attempt": 0}] == expected
        assert taken["attempt"] == 1
    assert way.get() is None
    assert orders.statistics().depth == 0


@not_tasks
def test_a_queue_that_is_gone_is_told(way: Any, reference: TelestoClient) -> None:
    way.delete()
    assert reference.get_queues() == []
    for call in (partial(way.put, BODY), way.get, way.browse, way.delete):
        with pytest.raises(QueueNotExistingError):
            call()


@pytest.mark.parametrize("way", [f"task {how}" for how in TASKS], indirect=True)
def test_a_task_creates_its_queue(way: Any, reference: TelestoClient) -> None:
    reference.queue(QUEUE).delete()
    way.put(BODY)
    assert reference.queue(QUEUE).statistics().depth == 1


@clients_only
def test_a_request_is_answered(way: Any, reference: TelestoClient) -> None:
    with ThreadPoolExecutor(1) as executor:
        asked = executor.submit(way.request, "shout")
        request = reference.queue(QUEUE).get(timeout=PATIENCE_S)
        assert request is not None
        reference.reply(request, request.text.upper())
        assert asked.result(PATIENCE_S) == "SHOUT"
