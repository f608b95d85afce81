"""Consumers at work: producers of two queues, with and without keys, and who consumes them, well or badly."""

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from telesto.client import AsyncTelestoClient, ClientOptions
from telesto.protocol.errors import LeaseLostError

from .checkers.calls import Bounds
from .checkers.checker import Verdict
from .checkers.consumer_checker import check_consumers
from .clients.consumer import Settle, Take
from .clients.history import Began, Ended, Event, Recorder
from .service.processes import Database
from .workload import CLIENT_OPTIONS, Part, Size, Workload, register, rows_left_at_last

_CONSUMERS = ("blocking", "cancelling", "slow", "untold", "handlers", "pool", "forwarding")
#: Each consumer has one of them: the styles are uneven in number, so that each is in both in the end.
_QUEUES = ("work", "more-work")
#: Takes what the forwarding consumers make of their messages.
_RESULTS = "results"
#: Short, so that leases run out in a run; no message dies of it.
_LEASE_S = 2.0
_ATTEMPTS = 1_000_000
_BACKOFF_S = (0.1, 1.0)
_DRAINER = "drainer"
_DRAINER_CREDIT = 32
#: What a killed consumer had comes back within so long, in seconds.
_BACK_S = 10.0
#: Not lost_leases: a middleware asks for them once its consumers have messages again.
_TABLES = (
    "messages",
    "delayed_messages",
    "keyed_messages",
    "partition_arrivals",
    "partitions",
    "leases",
    "consumers",
    "dead_letters",
)
_DELAYED_SHARE = 0.02


class ConsumerWork(Workload):
    """Puts, and messages pushed under leases."""

    meaningless = frozenset({"kill-client-state"})
    sizes: ClassVar[Mapping[str, Size]] = {
        "small": Size(
            2, {"producer": ("blocking", "asyncio"), "consumer": _CONSUMERS}, rounds=1, at_once=2, keys=20
        ),
        "medium": Size(
            3, {"producer": ("blocking", "asyncio"), "consumer": _CONSUMERS * 2}, rounds=3, at_once=2, keys=80
        ),
        "large": Size(
            3,
            {
                "producer": ("blocking", "threads", "asyncio", "asyncio"),
                "consumer": (*_CONSUMERS * 2, "blocking", "handlers"),
            },
            rounds=20,
            at_once=3,
            keys=200,
        ),
    }

    def __init__(self, size: Size, histories: Path) -> None:
        super().__init__(size, histories)
        self._queue_ids: list[int] = []
        self._results_id = 0

    async def prepare(self, url: str) -> list[Part]:
        """Registers the clients and creates the queues."""
        producers, consumers = self.names("producer"), self.names("consumer")
        for name in (*producers, *consumers):
            await register(url, name)
        async with AsyncTelestoClient(url, name="preparer") as client:
            await client.connect()
            first, most = _BACKOFF_S
            for name in _QUEUES:
                # Consumers that fail are to go on, as those do that are slow.
                queue = await client.create_queue(
                    name,
                    lease=_LEASE_S,
                    max_attempts=_ATTEMPTS,
                    backoff=first,
                    backoff_max=most,
                    fail_limit=0,
                )
                self._queue_ids.append(queue.queue_id)
            self._results_id = (await client.create_queue(_RESULTS)).queue_id
        keys = [f"key-{number}" for number in range(1, self._size.keys + 1)]
        put = {"queue_ids": self._queue_ids, "partitions": keys, "delayed_share": _DELAYED_SHARE}
        parts = [Part("producer", name, style, put) for name, style in producers.items()]
        for number, (name, style) in enumerate(consumers.items()):
            queue_id = self._queue_ids[number % len(_QUEUES)]
            parts.append(Part("consumer", name, style, {"queue_ids": [queue_id, self._results_id]}))
        return parts

    def may_be_killed(self, part: Part) -> bool:
        """All: what a consumer has not acknowledged comes again."""
        return True

    async def drain(self, url: str) -> None:
        """Acknowledges what is left, until nothing has come for as long as a lease may last."""
        recorder = Recorder(self._histories, _DRAINER, 1)
        async with AsyncTelestoClient(url, options=ClientOptions(**CLIENT_OPTIONS), name=_DRAINER) as client:
            await client.connect()
            recorder.write(Began, client_id=client.client_id)
            numbers = itertools.count(1)
            await asyncio.gather(
                *(
                    self._acknowledge_all(client, queue_id, recorder, numbers)
                    for queue_id in (*self._queue_ids, self._results_id)
                )
            )
        recorder.write(Ended)
        recorder.close()

    async def _acknowledge_all(
        self, client: AsyncTelestoClient, queue_id: int, recorder: Recorder, numbers: Iterator[int]
    ) -> None:
        async with client.queue(queue_id).consume(credit=_DRAINER_CREDIT, keep_alive=True) as consumer:
            for number in numbers:
                take = Take(recorder, number, _BACK_S)
                take.began(client)
                leased = await consumer.get(_BACK_S)
                take.returned(client, leased)
                if leased is None:
                    return
                settle = Settle(recorder, number, leased.message, "ack")
                settle.began(client)
                try:
                    await leased.ack()
                except LeaseLostError as error:
                    settle.raised(client, error)
                else:
                    settle.done(client)

    async def leftovers(self, database: Database) -> list[str]:
        """No message, lease, partition or consumer is left."""
        return await rows_left_at_last(database, _TABLES)

    def check(self, events: Iterable[Event], bounds: Bounds) -> Verdict:
        """Each message was acknowledged once, and partitions have kept their order."""
        return check_consumers(events, bounds)
