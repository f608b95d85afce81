"""Long random sequences of calls against a model in memory: results, order, totals, records."""

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import psycopg
import pytest

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
    Confirmed,
    Element,
    Put,
    Read,
    Taken,
)
from telesto.db.checks.findings import find_contradictions

# How many sequences; a longer run is a matter of this variable.
SEEDS = int(os.environ.get("TELESTO_TEST_MODEL_SEEDS", "6"))
STEPS = 200
NO_QUEUE = 1 << 40
CLIENTS_MAX, QUEUES_MAX = 4, 3

T = TypeVar("T")


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


class Walk:
    """Makes random calls, lets the model do the same, and compares; counts what came about."""

    def __init__(self, calls: Calls, seed: int) -> None:
        self.calls = calls
        self.rng = random.Random(seed)
        self.model = Model()
        self.administrator = calls.register()
        self.clients: list[Client] = []
        self.gone: list[Client] = []
        self.last_id = 0
        self.seen: Counter[str] = Counter()
        # A walk with single readers, responses and small limits everywhere would never take the fast paths.
        self.plain = self.rng.random() < 0.4
        for _ in range(3):
            self.register()
        for max_messages in (None, None, 20):
            self.create_queue(max_messages)

    def steps(self) -> dict[Callable[[], None], int]:
        """Return the kinds of steps with their weights."""
        return {
            self.put: 30,
            self.take: 30,
            self.select: 10,
            self.confirm: 8,
            self.release: 8,
            self.take_over: 4,
            self.browse: 3,
            self.list_active: 2,
            self.purge: 1,
            self.register: 2,
            self.create_queue: 2,
            self.delete_client: 1,
            self.delete_queue: 1,
        }

    def run(self, steps: int) -> None:
        """Take so many steps; compare totals after each, all records at the end."""
        kinds = self.steps()
        for step in self.rng.choices(list(kinds), list(kinds.values()), k=steps):
            step()
            self.compare_totals()
        self.compare_records()

    def maybe(self, probability: float) -> bool:
        return self.rng.random() < probability

    def any_client(self) -> Client:
        if self.gone and self.maybe(0.03):
            return self.rng.choice(self.gone)
        return self.rng.choice(self.clients)

    def any_queue(self) -> int:
        return NO_QUEUE if self.maybe(0.03) else self.rng.choice([*self.model.queues])

    def some(self, choices: Sequence[T], most: int) -> list[T]:
        return self.rng.sample(choices, min(len(choices), self.rng.randint(1, most)))

    def stray_session(self, client: Client) -> int | None:
        return client.session + 1 if self.maybe(0.04) else None

    # --- steps -------------------------------------------------------------------------------------

    def register(self) -> None:
        if len(self.clients) < CLIENTS_MAX:
            client = self.calls.register()
            self.model.sessions[client.client_id] = client.session
            self.clients.append(client)

    def create_queue(self, max_messages: int | None = None) -> None:
        if len(self.model.queues) < QUEUES_MAX:
            queue = self.calls.create_queue(self.administrator, max_messages)
            self.model.queues[queue] = ModelQueue(max_messages)

    def take_over(self) -> None:
        client = self.rng.choice(self.clients)
        successor = self.calls.take_over(client)
        client.session, client.numbers = successor.session, successor.numbers
        self.model.sessions[client.client_id] = client.session
        rows = self.calls.rows(
            "list_unconfirmed_hand_overs", client.client_id, client.session, 0, 0, 0, 10_000, 1 << 40
        )
        listed = [(row["session"], row["number"], row["message_id"]) for row in rows]
        assert listed == self.model.hand_overs(client.client_id)

    def put(self) -> None:
        requests = [self.put_request() for _ in range(self.rng.randint(1, 8))]
        confirmed = self.some_confirmed()
        for request, answer in zip(requests, self.calls.put(requests, confirmed), strict=True):
            session = request.client.session if request.session is None else request.session
            errors = self.model.judge_put(request, session, answer.number)
            assert answer.errors == errors
            for message_id, error in zip(answer.message_ids, errors, strict=True):
                assert (message_id > self.last_id) if error is None else (message_id == 0)
                self.last_id = max(self.last_id, message_id)
            self.model.enter_put(request, session, answer.number, errors, answer.message_ids)
            self.seen.update(f"put {error}" for error in errors)
        self.confirm_passed(requests, confirmed)

    def put_request(self) -> Put:
        client = self.any_client()
        count = 1 if self.plain or self.maybe(0.6) else self.rng.randint(1, 4)
        elements = [
            Element(
                self.any_queue(),
                self.rng.randbytes(self.rng.randint(0, 12)),
                priority=self.rng.choice([5, 5, 5, 6, self.rng.randint(1, 10)]),
                receiver=0 if self.plain or self.maybe(0.6) else self.rng.choice(self.clients).client_id,
                context=self.rng.choice([None, 1, 2]),
            )
            for _ in range(count)
        ]
        return Put(client, elements, self.put_number(client), self.stray_session(client))

    def put_number(self, client: Client) -> int | None:
        """Return None for the next number, now and then 0 or the number of an earlier put."""
        identity = (client.client_id, client.session)
        used = [number for *key, number in self.model.operations if tuple(key) == identity]
        return self.rng.choice([None] * 8 + [0, *self.some(used, 1)])

    def take(self) -> None:
        self.compare_reads([self.read_request() for _ in range(self.rng.randint(1, 6))], self.calls.take)

    def select(self) -> None:
        responses = self.maybe(0.4)
        reads = [
            replace(
                self.read_request(),
                sender=0 if responses or self.maybe(0.5) else self.rng.choice(self.clients).client_id,
                mode=BY_PRIORITY if responses else self.rng.choice([BY_PRIORITY, BY_AGE]),
                context=self.rng.choice([1, 2] if responses else [None, None, None, 1, 2]),
            )
            for _ in range(self.rng.randint(1, 6))
        ]
        self.compare_reads(reads, self.calls.select)

    def read_request(self) -> Read:
        client = self.any_client()
        return Read(
            client,
            self.any_queue(),
            max_messages=1 if self.maybe(0.4) else self.rng.randint(1, 5),
            max_bytes=1 << 20 if self.plain or self.maybe(0.8) else self.rng.choice([0, 6, 20]),
            number=0 if self.maybe(0.1) else None,
            session=self.stray_session(client),
        )

    def compare_reads(
        self, requests: list[Read], call: Callable[[Sequence[Read], Sequence[Confirmed]], list[Taken]]
    ) -> None:
        confirmed = self.some_confirmed()
        for request, answer in zip(requests, call(requests, confirmed), strict=True):
            session = request.client.session if request.session is None else request.session
            assert answer == self.model.take(request, session, answer.number)
            self.seen.update([f"take {answer.error}"] * (1 if answer.error else len(answer.messages)))
        self.confirm_passed(requests, confirmed)

    def some_confirmed(self) -> list[Confirmed]:
        known = sorted({*self.model.operations, *(key[:3] for key in self.model.deliveries)})
        stray = (self.rng.choice(self.clients).client_id, 1, NO_QUEUE)
        return self.some([*known, stray], 6) if self.maybe(0.5) else []

    def confirm_passed(self, requests: Sequence[Put] | Sequence[Read], confirmed: list[Confirmed]) -> None:
        passed = {
            request.client.client_id
            for request in requests
            if request.session is None
            and self.model.fence(request.client.client_id, request.client.session) is None
        }
        for client, session, number in confirmed:
            self.seen["confirm own" if client in passed else "confirm for another"] += 1
            if client in passed:
                self.model.confirm(client, session, number)

    def confirm(self) -> None:
        client = self.any_client()
        known = [(s, n, 0) for c, s, n in self.model.operations if c == client.client_id]
        known += [(s, n, 0) for s, n, _ in self.model.hand_overs(client.client_id)]
        known += self.model.hand_overs(client.client_id)
        chosen = self.some(sorted({*known, (1, NO_QUEUE, 0)}), 5)
        answer = self.calls.confirm(client, *chosen)
        error = self.model.fence(client.client_id, client.session)
        assert answer["errors"] == (None if error is None else [error])
        if error is None:
            for session, number, message_id in chosen:
                self.model.confirm(client.client_id, session, number, message_id)

    def release(self) -> None:
        client = self.any_client()
        known = self.model.hand_overs(client.client_id)
        known += [(session, number, 0) for session, number, _ in known]
        chosen = self.some([*known, (1, NO_QUEUE, 7)], 6)
        answer = self.calls.release(client, *chosen)
        assert answer["error"] == self.model.fence(client.client_id, client.session)
        if answer["error"] is None:
            self.compare_given_back(answer, client, chosen)

    def compare_given_back(
        self, answer: dict[str, Any], client: Client, given: Sequence[tuple[int, int, int]]
    ) -> None:
        back = [pair for key in given for pair in self.model.give_back(client.client_id, *key)]
        pairs = zip(answer["queue_ids"] or [], answer["receiver_ids"] or [], strict=True)
        assert sorted(pairs) == sorted(back)
        self.seen["given back"] += len(back)

    def purge(self) -> None:
        queue, max_rows = self.any_queue(), self.rng.randint(1, 20)
        answer = self.calls.numbered("purge_queue", self.administrator, queue, max_rows, number=0)
        held = self.model.queues.get(queue)
        if held is None:
            assert answer["error"] == QUEUE_NOT_EXISTING
            return
        order = sorted(held.messages.values(), key=_purge_order)
        for message in order[:max_rows]:
            del held.messages[message.message_id]
            held.taken_total += 1
        assert (answer["removed"], answer["more"]) == (min(len(order), max_rows), len(order) > max_rows)

    def delete_queue(self) -> None:
        queue = self.any_queue()
        if len(self.model.queues) > 1 or queue == NO_QUEUE:
            existed = self.model.queues.pop(queue, None) is not None
            answer = self.calls.numbered("delete_queue", self.administrator, queue, number=0)
            assert answer["error"] == (None if existed else QUEUE_NOT_EXISTING)

    def delete_client(self) -> None:
        if len(self.clients) < 2:
            return
        client = self.rng.choice(self.clients)
        self.clients.remove(client)
        self.gone.append(client)
        answer = self.calls.numbered("delete_client", client, number=0)
        assert answer["error"] is None
        self.compare_given_back(answer, client, self.model.hand_overs(client.client_id))
        del self.model.sessions[client.client_id]
        for key in [key for key in self.model.operations if key[0] == client.client_id]:
            del self.model.operations[key]

    def browse(self) -> None:
        client, queue, max_rows = self.any_client(), self.any_queue(), self.rng.randint(1, 10)
        position = self.rng.choice([0, self.last_id - self.rng.randint(0, 20)])
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

    def list_active(self) -> None:
        client = self.rng.choice(self.clients)
        rows = self.calls.rows("list_active_queues", client.client_id, 0, 1 << 20)
        expected = {
            queue
            for queue, held in self.model.queues.items()
            if any(message.receiver in (0, client.client_id) for message in held.messages.values())
        }
        assert {row["queue_id"] for row in rows} == expected

    # --- comparisons -------------------------------------------------------------------------------

    def compare_totals(self) -> None:
        for queue, held in self.model.queues.items():
            figures = self.calls.statistics(queue, 100_000)
            assert figures.pop("oldest_age_ms", 0) is None or held.messages
            assert figures == {
                "error": None,
                "depth": len(held.messages),
                "ready": len(held.messages),
                "delayed": 0,
                "backing_off": 0,
                "keyed": 0,
                "leased": 0,
                "dead": 0,
                "exact": True,
                "directed_depth": sum(message.receiver != 0 for message in held.messages.values()),
                "put_total": held.put_total,
                "taken_total": held.taken_total,
                "max_messages": held.max_messages,
            }

    def compare_records(self) -> None:
        for client in self.clients + self.gone:
            known = [
                (session, number, ids, errors if any(errors) else None)
                for (client_id, session, number), (ids, errors) in sorted(self.model.operations.items())
                if client_id == client.client_id
            ]
            assert self.calls.operations(client) == known
            assert self.calls.deliveries(client) == self.model.hand_overs(client.client_id)


def _purge_order(message: ModelMessage) -> tuple[int, int, int]:
    """What is for anyone goes in the order of reads, the rest along the primary key."""
    level = message.priority if message.receiver else -message.priority
    return message.receiver, level, message.message_id


@pytest.mark.parametrize("seed", range(SEEDS))
def test_procedures_agree_with_the_model(calls: Calls, database_url: str, seed: int) -> None:
    walk = Walk(calls, seed)
    walk.run(STEPS)
    with psycopg.connect(database_url) as connection:
        assert find_contradictions(connection) == []
    # What never came about was not compared.
    assert min(walk.seen[kind] for kind in ("put None", "take None")) > 50, walk.seen
    assert min(walk.seen[kind] for kind in ("given back", "confirm own", "confirm for another")) > 0, (
        walk.seen
    )
