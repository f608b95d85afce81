"""Queues in states that have misled planners, and batches to measure on them."""

from typing import Any

from consumer_calls import Consumer, Consuming
from plan_costs import BACKLOG, BATCH, DEAD
from procedure_calls import Calls, Client, Element, Put, Read


class Workbench:
    """Queues and clients in some state of the tables, and the batches to measure on them."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.clients = [calls.register() for _ in range(8)]
        self.queue = calls.create_queue(self.clients[0])
        self.queues = [calls.create_queue(self.clients[0]) for _ in range(16)]

    def fill(self, count: int, **options: Any) -> None:
        """Put unrecorded messages into the queue."""
        client = self.clients[0]
        for _ in range(count // 2000):
            element = Element(self.queue, **options)
            self.calls.put([Put(client, [element] * 2000, number=0)])

    def drain(self, count: int) -> None:
        """Take unrecorded messages out of the queue."""
        for _ in range(count // 1000):
            self.calls.take([Read(self.clients[0], self.queue, 1000, number=0)])

    def client(self, i: int) -> Client:
        return self.clients[i % len(self.clients)]

    def keyed(self, queues: list[int], turn: int) -> list[Put]:
        """Half of them have been put before."""
        keys = [f"{turn if i % 2 else 0}-{i}" for i in range(BATCH)]
        return [Put(self.client(i), [Element(queues[i % len(queues)], key=keys[i])]) for i in range(BATCH)]

    def puts(self, queues: list[int], **options: Any) -> list[Put]:
        return [Put(self.client(i), [Element(queues[i % len(queues)], **options)]) for i in range(BATCH)]

    def reads(self, queues: list[int], **options: Any) -> list[Read]:
        return [Read(self.client(i), queues[i % len(queues)], **options) for i in range(BATCH)]


def empty(bench: Workbench) -> None:
    """Nothing but what the batches themselves bring."""


def full(bench: Workbench) -> None:
    bench.fill(BACKLOG)


def backlog_below(bench: Workbench) -> None:
    bench.fill(BACKLOG, priority=2)


def dead(bench: Workbench) -> None:
    bench.fill(DEAD)
    bench.drain(DEAD)


def members(bench: Workbench) -> tuple[Consuming, list[Consumer]]:
    """Have each client consume the queue."""
    consuming = Consuming(bench.calls)
    return consuming, [consuming.join(client, bench.queue) for client in bench.clients]
