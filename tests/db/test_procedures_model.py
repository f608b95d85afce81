"""Random sequences of calls against a model in memory: results, order, totals, records."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from procedure_calls import (
    BY_AGE,
    BY_PRIORITY,
    CLIENT_NOT_EXISTING,
    MESSAGE_TOO_LARGE,
    NUMBER_REPEATED,
    QUEUE_FULL,
    QUEUE_NOT_EXISTING,
    SESSION_FENCED,
    Calls,
    Client,
    Element,
    Put,
    Read,
    Taken,
)
from telesto.db.checks import find_contradictions

# How many sequences; a longer run is a matter of this variable.
EXAMPLES = int(os.environ.get("TELESTO_TEST_MODEL_EXAMPLES", "60"))
NO_QUEUE = 1 << 40
PRIORITIES = st.integers(1, 10) | st.sampled_from([5, 5, 5, 6])
BODIES = st.binary(max_size=12)
CONTEXTS = st.none() | st.integers(1, 2)


@dataclass
class ModelMessage:
    message_id: int
    queue: int
    sender: int
    receiver: int
    priority: int
    context: int | None
    body: bytes
    attempt: int = 0
    redelivered: bool = False

    def as_answer(self) -> dict[str, Any]:
        return {
            "message_id": self.message_id,
            "queue_id": self.queue,
            "sender_id": self.sender,
            "receiver_id": self.receiver,
            "priority": self.priority,
            "attempt": self.attempt,
            "redelivered": self.redelivered,
            "context": self.context,
            "body": self.body,
        }


@dataclass
class ModelQueue:
    max_messages: int | None
    put_total: int = 0
    taken_total: int = 0
    messages: dict[int, ModelMessage] = field(default_factory=dict)


class Model:
    """What the database should hold, in dictionaries."""

    def __init__(self) -> None:
        self.sessions: dict[int, int] = {}
        self.queues: dict[int, ModelQueue] = {}
        self.operations: dict[tuple[int, int, int], tuple[list[int], list[int | None]]] = {}
        self.deliveries: dict[tuple[int, int, int, int], ModelMessage] = {}

    def fence(self, client: int, session: int) -> int | None:
        if client not in self.sessions:
            return CLIENT_NOT_EXISTING
        return None if self.sessions[client] == session else SESSION_FENCED

    def judge_put(self, request: Put, session: int, number: int) -> list[int | None]:
        """Return the errors of the elements; what goes through is entered by `enter_put`."""
        client = request.client.client_id
        error = self.fence(client, session)
        if error is None and number and (client, session, number) in self.operations:
            error = NUMBER_REPEATED
        if error is not None:
            return [error] * len(request.elements)
        errors: list[int | None] = []
        coming: dict[int, int] = {}
        for element in request.elements:
            errors.append(self._judge_element(element, coming))
        return errors

    def _judge_element(self, element: Element, coming: dict[int, int]) -> int | None:
        queue = self.queues.get(element.queue)
        if queue is None:
            return QUEUE_NOT_EXISTING
        ahead = coming.get(element.queue, 0)
        if queue.max_messages is not None and len(queue.messages) + ahead >= queue.max_messages:
            return QUEUE_FULL
        coming[element.queue] = ahead + 1
        return None

    def enter_put(
        self, request: Put, session: int, number: int, errors: list[int | None], message_ids: list[int]
    ) -> None:
        client = request.client.client_id
        for element, error, message_id in zip(request.elements, errors, message_ids, strict=True):
            if error is None:
                queue = self.queues[element.queue]
                queue.put_total += 1
                queue.messages[message_id] = ModelMessage(
                    message_id,
                    element.queue,
                    client,
                    element.receiver,
                    element.priority,
                    element.context,
                    element.body,
                )
        if number and set(errors) <= {None, QUEUE_NOT_EXISTING, QUEUE_FULL}:
            self.operations[client, session, number] = (message_ids, errors)

    def take(self, request: Read, session: int, number: int) -> Taken:
        client = request.client.client_id
        error = self.fence(client, session)
        if error is None and request.queue not in self.queues:
            error = QUEUE_NOT_EXISTING
        taken = Taken(number, error)
        if error is not None:
            return taken
        queue = self.queues[request.queue]
        size = 0
        for message in self._candidates(request, queue, client)[: request.max_messages]:
            size += len(message.body)
            if size > request.max_bytes:
                if not taken.messages:
                    taken.error, taken.related_id = MESSAGE_TOO_LARGE, message.message_id
                break
            handed = replace(message, attempt=message.attempt + 1)
            taken.messages.append(handed.as_answer())
            del queue.messages[message.message_id]
            queue.taken_total += 1
            if number:
                self.deliveries[client, session, number, message.message_id] = handed
        return taken

    def _candidates(self, request: Read, queue: ModelQueue, client: int) -> list[ModelMessage]:
        readable = [
            message
            for message in queue.messages.values()
            if message.receiver in (0, client)
            and request.sender in (0, message.sender)
            and (
                request.context is None or (message.context == request.context and message.receiver == client)
            )
        ]
        if request.mode == BY_AGE:
            return sorted(readable, key=lambda message: message.message_id)
        return sorted(readable, key=lambda message: (-message.priority, message.message_id))

    def confirm(self, client: int, session: int, number: int, message_id: int = 0) -> bool:
        """Forget a request, or one of its messages; tell whether there was anything."""
        keys = [
            key
            for key in self.deliveries
            if key[:3] == (client, session, number) and message_id in (0, key[3])
        ]
        for key in keys:
            del self.deliveries[key]
        operation = message_id == 0 and self.operations.pop((client, session, number), None) is not None
        return operation or bool(keys)

    def give_back(self, client: int, session: int, number: int, message_id: int = 0) -> list[tuple[int, int]]:
        back = []
        for key in sorted(self.deliveries):
            if key[:3] == (client, session, number) and message_id in (0, key[3]):
                message = self.deliveries.pop(key)
                queue = self.queues.get(message.queue)
                if queue is not None:
                    queue.messages[message.message_id] = replace(message, redelivered=True)
                    queue.taken_total -= 1
                    back.append((message.queue, message.receiver))
        return back

    def hand_overs(self, client: int) -> list[tuple[int, int, int]]:
        return sorted(key[1:] for key in self.deliveries if key[0] == client)


class QueueMachine(RuleBasedStateMachine):
    """Rules call the procedures and the model alike and compare."""

    def __init__(self, calls: Calls, url: str) -> None:
        super().__init__()
        self.calls = calls
        self.url = url
        self.model = Model()
        self.clients: list[Client] = []
        self.last_id = 0

    client = Bundle("client")
    queue = Bundle("queue")

    @initialize(target=client)
    def register_first(self) -> Any:
        return multiple(self._register(), self._register())

    @initialize(target=queue)
    def create_first(self) -> int:
        return self._create(None)

    def _register(self) -> Client:
        client = self.calls.register()
        self.model.sessions[client.client_id] = client.session
        self.clients.append(client)
        return client

    def _create(self, max_messages: int | None) -> int:
        queue = self.calls.create_queue(self.calls.register(), max_messages)
        self.model.queues[queue] = ModelQueue(max_messages)
        return queue

    @rule(target=client)
    def register(self) -> Client:
        return self._register()

    @rule(target=queue, max_messages=st.none() | st.integers(1, 5))
    def create_queue(self, max_messages: int | None) -> int:
        return self._create(max_messages)

    @rule(client=client)
    def take_over(self, client: Client) -> None:
        if client.client_id not in self.model.sessions:
            return
        successor = self.calls.take_over(client)
        client.session, client.numbers = successor.session, successor.numbers
        self.model.sessions[client.client_id] = client.session
        listed = self.calls.rows(
            "list_unconfirmed_hand_overs", client.client_id, client.session, 0, 0, 0, 10_000, 1 << 40
        )
        assert [
            (row["session"], row["number"], row["message_id"]) for row in listed
        ] == self.model.hand_overs(client.client_id)

    @rule(data=st.data())
    def put(self, data: st.DataObject) -> None:
        requests = data.draw(st.lists(st.builds(self._draw_put, st.just(data)), min_size=1, max_size=4))
        confirmed = self._draw_confirmed(data, requests)
        answers = self.calls.put(requests, confirmed)
        for request, answer in zip(requests, answers, strict=True):
            session = request.client.session if request.session is None else request.session
            errors = self.model.judge_put(request, session, answer.number)
            assert answer.errors == errors
            for message_id, error in zip(answer.message_ids, errors, strict=True):
                assert (message_id > self.last_id) if error is None else (message_id == 0)
                self.last_id = max(self.last_id, message_id)
            self.model.enter_put(request, session, answer.number, errors, answer.message_ids)
        self._confirm_passed(requests, confirmed)

    def _draw_put(self, data: st.DataObject) -> Put:
        client = data.draw(self.client_now)
        element = st.builds(
            Element,
            self.queue_now,
            body=BODIES,
            priority=PRIORITIES,
            receiver=st.just(0) | self.receiver,
            context=CONTEXTS,
        )
        number = data.draw(st.sampled_from([None, None, None, 0, 1]))
        session = data.draw(st.sampled_from([None] * 6 + [client.session + 1]))
        return Put(client, data.draw(st.lists(element, min_size=1, max_size=4)), number, session)

    @rule(data=st.data(), selective=st.booleans())
    def take(self, data: st.DataObject, selective: bool) -> None:
        requests = data.draw(
            st.lists(st.builds(self._draw_read, st.just(data), st.just(selective)), min_size=1, max_size=5)
        )
        confirmed = self._draw_confirmed(data, requests)
        call = self.calls.select if selective else self.calls.take
        for request, answer in zip(requests, call(requests, confirmed), strict=True):
            session = request.client.session if request.session is None else request.session
            assert answer == self.model.take(request, session, answer.number)
        self._confirm_passed(requests, confirmed)

    def _draw_read(self, data: st.DataObject, selective: bool) -> Read:
        client = data.draw(self.client_now)
        read = Read(
            client,
            data.draw(self.queue_now),
            max_messages=data.draw(st.integers(1, 4)),
            max_bytes=data.draw(st.sampled_from([1 << 20, 1 << 20, 0, 6, 20])),
            number=data.draw(st.sampled_from([None, None, 0])),
            session=data.draw(st.sampled_from([None] * 6 + [client.session + 1])),
        )
        if not selective:
            return read
        return replace(
            read,
            sender=data.draw(st.just(0) | self.receiver),
            mode=data.draw(st.sampled_from([BY_PRIORITY, BY_AGE])),
            context=data.draw(CONTEXTS),
        )

    def _draw_confirmed(self, data: st.DataObject, requests: Any) -> list[tuple[int, int, int]]:
        known = sorted({*self.model.operations, *(key[:3] for key in self.model.deliveries)})
        stray = st.just((requests[0].client.client_id, 1, 1 << 40))
        one = st.sampled_from(known) | stray if known else stray
        return data.draw(st.lists(one, max_size=4))

    def _confirm_passed(self, requests: Any, confirmed: list[tuple[int, int, int]]) -> None:
        passed = {
            request.client.client_id
            for request in requests
            if self.model.fence(
                request.client.client_id,
                request.client.session if request.session is None else request.session,
            )
            is None
        }
        for client, session, number in confirmed:
            if client in passed:
                self.model.confirm(client, session, number)

    @rule(client=client, data=st.data())
    def confirm(self, client: Client, data: st.DataObject) -> None:
        known = [(s, n, 0) for c, s, n in self.model.operations if c == client.client_id]
        known += [(s, n, 0) for s, n, _ in self.model.hand_overs(client.client_id)]
        known += self.model.hand_overs(client.client_id)
        one = st.sampled_from([*known, (1, 1 << 40, 0)])
        chosen = data.draw(st.lists(one, min_size=1, max_size=4, unique=True))
        answer = self.calls.confirm(client, *chosen)
        error = self.model.fence(client.client_id, client.session)
        assert answer["errors"] == (None if error is None else [error])
        if error is None:
            for session, number, message_id in chosen:
                self.model.confirm(client.client_id, session, number, message_id)

    @rule(client=client, data=st.data())
    def release(self, client: Client, data: st.DataObject) -> None:
        known = self.model.hand_overs(client.client_id)
        known += [(session, number, 0) for session, number, _ in known]
        chosen = data.draw(st.lists(st.sampled_from([*known, (1, 1 << 40, 7)]), min_size=1, max_size=5))
        answer = self.calls.release(client, *chosen)
        assert answer["error"] == self.model.fence(client.client_id, client.session)
        if answer["error"] is None:
            back = [pair for key in chosen for pair in self.model.give_back(client.client_id, *key)]
            assert sorted(_pairs(answer)) == sorted(back)

    @rule(queue=queue, max_rows=st.integers(1, 5))
    def purge(self, queue: int, max_rows: int) -> None:
        client = self.calls.register()
        answer = self.calls.numbered("purge_queue", client, queue, max_rows)
        held = self.model.queues.get(queue)
        if held is None:
            assert answer["error"] == QUEUE_NOT_EXISTING
            return
        order = sorted(held.messages.values(), key=_purge_order)
        for message in order[:max_rows]:
            del held.messages[message.message_id]
            held.taken_total += 1
        assert (answer["removed"], answer["more"]) == (min(len(order), max_rows), len(order) > max_rows)

    @rule(queue=consumes(queue))
    def delete_queue(self, queue: int) -> None:
        existed = self.model.queues.pop(queue, None) is not None
        answer = self.calls.numbered("delete_queue", self.calls.register(), queue)
        assert answer["error"] == (None if existed else QUEUE_NOT_EXISTING)

    @rule(client=consumes(client))
    def delete_client(self, client: Client) -> None:
        gone = client.client_id not in self.model.sessions
        keys = self.model.hand_overs(client.client_id)
        answer = self.calls.numbered("delete_client", client, number=1 << 30)
        assert answer["error"] == (CLIENT_NOT_EXISTING if gone else None)
        if not gone:
            back = [pair for key in keys for pair in self.model.give_back(client.client_id, *key)]
            assert sorted(_pairs(answer)) == sorted(back)
            del self.model.sessions[client.client_id]
            self.model.operations = {
                key: value for key, value in self.model.operations.items() if key[0] != client.client_id
            }

    @rule(client=client, queue=queue, after=st.integers(0, 3), max_rows=st.integers(1, 5))
    def browse(self, client: Client, queue: int, after: int, max_rows: int) -> None:
        position = self.last_id - after
        rows = self.calls.rows("browse_messages", client.client_id, queue, position, max_rows, 1 << 40)
        held = self.model.queues.get(queue)
        if held is None:
            assert [row["error"] for row in rows] == [QUEUE_NOT_EXISTING]
            return
        expected = [
            message_id
            for message_id, message in sorted(held.messages.items())
            if message_id > position and message.receiver in (0, client.client_id)
        ]
        assert [row["message_id"] for row in rows] == expected[:max_rows]

    @rule(client=client)
    def list_active(self, client: Client) -> None:
        rows = self.calls.rows("list_active_queues", client.client_id, 0, 1 << 20)
        expected = {
            queue
            for queue, held in self.model.queues.items()
            if any(message.receiver in (0, client.client_id) for message in held.messages.values())
        }
        assert {row["queue_id"] for row in rows} & set(self.model.queues) == expected

    @invariant()
    def counts_agree(self) -> None:
        for queue, held in self.model.queues.items():
            directed = sum(message.receiver != 0 for message in held.messages.values())
            assert self.calls.statistics(queue) == {
                "error": None,
                "depth": len(held.messages),
                "directed_depth": directed,
                "put_total": held.put_total,
                "taken_total": held.taken_total,
                "max_messages": held.max_messages,
            }

    def teardown(self) -> None:
        for client in self.clients:
            known = [
                (s, n, ids, errors if any(errors) else None)
                for (c, s, n), (ids, errors) in sorted(self.model.operations.items())
                if c == client.client_id
            ]
            assert self.calls.operations(client) == known
            assert self.calls.deliveries(client) == self.model.hand_overs(client.client_id)
        with psycopg.connect(self.url) as connection:
            assert find_contradictions(connection) == []

    @property
    def client_now(self) -> st.SearchStrategy[Client]:
        return st.sampled_from(self.clients)

    @property
    def receiver(self) -> st.SearchStrategy[int]:
        return st.sampled_from([client.client_id for client in self.clients])

    @property
    def queue_now(self) -> st.SearchStrategy[int]:
        return st.sampled_from([*self.model.queues, NO_QUEUE])


def _purge_order(message: ModelMessage) -> tuple[int, int, int]:
    """What is for anyone goes in the order of reads, the rest along the primary key."""
    level = message.priority if message.receiver else -message.priority
    return message.receiver, level, message.message_id


def _pairs(answer: dict[str, Any]) -> list[tuple[int, int]]:
    return list(zip(answer["queue_ids"] or [], answer["receiver_ids"] or [], strict=True))


def test_procedures_agree_with_the_model(calls: Calls, database_url: str) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        lambda: QueueMachine(calls, database_url),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
