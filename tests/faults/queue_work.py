"""Queues at work: producers and readers of several queues, one of them bounded, one with a single reader."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from telesto.client import AsyncTelestoClient

from .checkers.calls import Bounds
from .checkers.checker import Verdict, check
from .clients.history import Event
from .drain import drain
from .service.processes import Database
from .workload import CLIENT_OPTIONS, Part, Size, Workload, part_of, register, rows_left

_READERS = ("blocking", "cancelling", "concurrent")
_DURABLE_PRODUCERS = ("blocking+state", "threads+state", "asyncio+state")
_DURABLE_READERS = ("blocking+state", "threads+state", "concurrent+state")
_SOLO_QUEUE = "solo"
#: The queues and their bounds; the solo queue has one reader, the last one, the others all others.
_QUEUES = {"shared": None, "bounded": 200, _SOLO_QUEUE: None}


class QueueWork(Workload):
    """Puts and reads."""

    meaningless = frozenset({"poison-client"})
    sizes: ClassVar[Mapping[str, Size]] = {
        "small": Size(
            2,
            {
                "producer": ("blocking", "asyncio", "blocking+state", "asyncio+state"),
                "reader": (*_READERS, "blocking+state", "blocking"),
            },
            rounds=1,
            at_once=2,
        ),
        "medium": Size(
            3,
            {
                "producer": ("blocking", "threads", "asyncio", "threads+state", "asyncio+state"),
                "reader": (*_READERS, "threads", "blocking+state", "concurrent+state", "blocking"),
            },
            rounds=4,
            at_once=2,
        ),
        "large": Size(
            4,
            {
                "producer": ("blocking", "threads", "asyncio", "asyncio", *_DURABLE_PRODUCERS),
                "reader": (*_READERS * 2, "threads", *_DURABLE_READERS, "blocking"),
            },
            rounds=25,
            at_once=3,
        ),
    }

    def __init__(self, size: Size, histories: Path) -> None:
        super().__init__(size, histories)
        self._queues: dict[str, int] = {}

    async def prepare(self, url: str) -> list[Part]:
        """Registers the clients, so that they know of each other, and creates the queues."""
        producers, readers = self.names("producer"), self.names("reader")
        ids = {name: await register(url, name) for name in (*readers, *producers)}
        async with AsyncTelestoClient(url, name="preparer") as client:
            await client.connect()
            for queue, bound in _QUEUES.items():
                self._queues[queue] = (await client.create_queue(queue, max_messages=bound)).queue_id
        reader_ids, producer_ids = [ids[name] for name in readers], [ids[name] for name in producers]
        return [
            part_of("producer", name, style, self._task(list(_QUEUES), receiver_ids=reader_ids))
            for name, style in producers.items()
        ] + [
            part_of("reader", name, style, self._task(self._queues_of(name), sender_ids=producer_ids))
            for name, style in readers.items()
        ]

    def _queues_of(self, reader: str) -> list[str]:
        is_solo = reader == list(self.names("reader"))[-1]
        return [queue for queue in _QUEUES if (queue == _SOLO_QUEUE) is is_solo]

    def _task(self, queues: list[str], **others: list[int]) -> dict[str, list[int]]:
        return {"queue_ids": [self._queues[queue] for queue in queues], **others}

    def may_be_killed(self, part: Part) -> bool:
        """Not those whose library confirms by itself: what they had when killed nobody knows."""
        return part.style != "cancelling"

    async def drain(self, url: str) -> None:
        """Empties the queues as each of the readers."""
        queue_ids = list(self._queues.values())
        await drain(url, CLIENT_OPTIONS, self._histories, self.names("reader"), queue_ids)

    async def leftovers(self, database: Database) -> list[str]:
        """No message is left anywhere."""
        return await rows_left(database, ("messages", "deliveries", "dead_letters"))

    def check(self, events: Iterable[Event], bounds: Bounds) -> Verdict:
        """Nothing is lost, doubled or out of order."""
        return check(events, bounds)
