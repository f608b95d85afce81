"""Whatever is busy, fails or waits: the requests of one connection take effect in their order, each once."""

import random
from typing import Any

import pytest

from telesto.middleware.common.failures import RefusedError
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from workbench import Sender, Workbench, error_row, message_row


class Database:
    """Procedures that are busy, refuse and fail by chance, and remember what took effect."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.effects: list[tuple[int, int]] = []
        self.depth = 0

    def put(self, *arguments: Any) -> list[Any]:
        clients, numbers = arguments[0], arguments[2]
        self._fail(len(clients))
        errors: list[int | None] = []
        busy: set[int] = set()
        for client_id, number in zip(clients, numbers, strict=True):
            if client_id in busy or self._chance.random() < 0.1:
                busy.add(client_id)
                errors.append(-1)
                continue
            self.effects.append((client_id, number))
            self.depth += 1
            errors.append(None)
        return [(errors if busy else None, [0 if error else 1 for error in errors])]

    def take(self, *arguments: Any) -> list[Any]:
        clients, numbers = arguments[0], arguments[2]
        self._fail(len(clients))
        rows = []
        busy: set[int] = set()
        for request, (client_id, number) in enumerate(zip(clients, numbers, strict=True), 1):
            if client_id in busy or self._chance.random() < 0.1:
                busy.add(client_id)
                rows.append(error_row(request, -1))
                continue
            self.effects.append((client_id, number))
            if self.depth:
                self.depth -= 1
                rows.append(message_row(request))
        return rows

    def _fail(self, requests: int) -> None:
        if requests > 1 and self._chance.random() < 0.1:
            raise RefusedError("53200", "out of shared memory")


@pytest.mark.parametrize("seed", range(25))
async def test_order_holds_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    database = Database(seed)
    bench = Workbench(
        database.put,
        database.take,
        quantum=chance.choice([1, 3, 32]),
        max_batch=chance.choice([1, 4, 64]),
        busy_backoff_max_ms=1,
    )
    bench.go()
    senders = [bench.sender(client_id) for client_id in range(1, 7)]
    for _ in range(300):
        sender = chance.choice(senders)
        if chance.random() < 0.6:
            sender.put(chance.randint(1, 3))
        else:
            sender.read(chance.randint(1, 3))
    await bench.until(lambda: all(len(sender.answers) == sender.sent for sender in senders))
    for sender in senders:
        check(sender, database)
    assert (bench.budget.requests, bench.budget.bytes) == (0, 0)
    await bench.close()


def check(sender: Sender, database: Database) -> None:
    took_effect = [
        number for client_id, number in database.effects if client_id == sender.pipeline.client.client_id
    ]
    assert took_effect == list(range(1, sender.sent + 1))
    assert not any(isinstance(answer, packets.Error) for answer in sender.answers.values())


@pytest.mark.parametrize("seed", range(15))
async def test_waiting_readers_get_every_message_once(seed: int) -> None:
    chance = random.Random(seed)
    database = Database(seed)
    bench = Workbench(database.put, database.take, max_batch=chance.choice([1, 4, 64]), busy_backoff_max_ms=1)
    bench.go()
    readers = [bench.sender(client_id) for client_id in range(1, 5)]
    writers = [bench.sender(client_id) for client_id in range(5, 8)]
    messages = 120
    left = {"puts": messages, "reads": messages}
    while any(left.values()):
        if left["reads"] and chance.random() < 0.5:
            chance.choice(readers).read(1, wait_s=60.0)
            left["reads"] -= 1
        elif left["puts"]:
            chance.choice(writers).put(1)
            left["puts"] -= 1
        if chance.random() < 0.3:
            await bench.until(lambda: bench.budget.requests < 40)
    await bench.until(lambda: all(len(sender.answers) == sender.sent for sender in (*readers, *writers)))
    answers = [answer for reader in readers for answer in reader.answers.values()]
    assert sum(len(answer.messages) for answer in answers) == messages
    assert database.depth == 0
    assert bench.room.parked == 0
    await bench.close()


async def test_a_put_that_is_busy_for_good_gives_way() -> None:
    def put(*arguments: Any) -> list[Any]:
        busy = [-1 if client_id == 1 else None for client_id in arguments[0]]
        return [(busy, [0 if error else 1 for error in busy])]

    bench = Workbench(put, lambda *_: [], busy_limit_s=0.02, busy_backoff_max_ms=1)
    bench.go()
    stuck, other = bench.sender(1), bench.sender(2)
    for _ in range(3):
        stuck.put(1)
        other.put(1)
    await bench.until(lambda: len(stuck.answers) == 3 and len(other.answers) == 3)
    assert {answer.code for answer in stuck.answers.values()} == {ErrorCode.OVERLOADED}
    assert stuck.order == [1, 2, 3]
    await bench.close()
