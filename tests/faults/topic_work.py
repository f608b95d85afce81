"""Topics at work: publishers and subscribers of several topics, some of whom leave and come back."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from telesto.client import AsyncTelestoClient, ClientOptions

from .checkers.calls import Bounds
from .checkers.checker import Verdict
from .checkers.topic_checker import check_topics
from .clients.history import Began, Ended, Event, Recorder, Subscribed
from .clients.subscriber import Call
from .service.processes import Database
from .workload import CLIENT_OPTIONS, Part, Size, Workload, part_of, register, rows_left_at_last

_TOPICS = ("news", "prices", "weather")
_PUBLISHERS = ("blocking", "numbering", "asyncio")
_SUBSCRIBERS = ("blocking", "leaving", "iterating", "batches")
_TABLES = ("topic_messages", "staged_topic_messages")
#: No process has run so often; the drain is a last process of each subscriber.
_RUN = 1_000_000
_BATCH = 500
#: Mean pause between two puts of a publisher, in seconds.
_PAUSE_S = 0.012


class TopicWork(Workload):
    """Puts to topics and gets from them."""

    meaningless = frozenset({"poison-client"})
    sizes: ClassVar[Mapping[str, Size]] = {
        "small": Size(
            2,
            {"publisher": (*_PUBLISHERS, "asyncio+state"), "subscriber": (*_SUBSCRIBERS, "blocking+state")},
            rounds=1,
            at_once=2,
        ),
        "medium": Size(
            3,
            {
                "publisher": (*_PUBLISHERS, "blocking+state", "asyncio+state"),
                "subscriber": (*_SUBSCRIBERS * 2, "blocking+state"),
            },
            rounds=2,
            at_once=2,
        ),
        "large": Size(
            3,
            {
                "publisher": (
                    *("blocking", "numbering", "numbering", "asyncio", "asyncio"),
                    *("blocking+state", "asyncio+state"),
                ),
                "subscriber": (*_SUBSCRIBERS * 5, "blocking+state", "blocking+state"),
            },
            rounds=12,
            at_once=3,
        ),
    }

    async def prepare(self, url: str) -> list[Part]:
        """Registers the clients; topics are there when somebody names them."""
        publishers, subscribers = self.names("publisher"), self.names("subscriber")
        for name in (*publishers, *subscribers):
            await register(url, name)
        return [
            part_of("publisher", name, style, {"topics": self._rotated(number), "pause_s": _PAUSE_S})
            for number, (name, style) in enumerate(publishers.items())
        ] + [
            part_of("subscriber", name, style, {"topics": self._rotated(number)[:2]})
            for number, (name, style) in enumerate(subscribers.items())
        ]

    @staticmethod
    def _rotated(number: int) -> list[str]:
        turn = number % len(_TOPICS)
        return [*_TOPICS[turn:], *_TOPICS[:turn]]

    def may_be_killed(self, part: Part) -> bool:
        """All: what a subscriber had not confirmed comes again."""
        return True

    async def drain(self, url: str) -> None:
        """Gets everything as each of the subscribers, who all leave then."""
        for name in self.names("subscriber"):
            recorder = Recorder(self._histories, name, _RUN)
            async with AsyncTelestoClient(url, options=ClientOptions(**CLIENT_OPTIONS), name=name) as client:
                await client.connect()
                recorder.write(Began, client_id=client.client_id)
                subscriptions = await client.subscriptions()
                for each in subscriptions:
                    recorder.write(Subscribed, topic=each.topic, subscription_id=each.subscription_id)
                if subscriptions:
                    await _get_all(client, recorder)
            recorder.write(Ended)
            recorder.close()

    async def leftovers(self, database: Database) -> list[str]:
        """Once nobody subscribes any more nothing is stored."""
        return await rows_left_at_last(database, _TABLES)

    def check(self, events: Iterable[Event], bounds: Bounds) -> Verdict:
        """Every subscriber got what it was owed, all in the same order, nothing twice."""
        return check_topics(events, bounds)


async def _get_all(client: AsyncTelestoClient, recorder: Recorder) -> None:
    messages = None
    number = 0
    while messages is None or messages:
        number += 1
        call = Call(recorder, number, None, 0.0)
        call.began(client)
        messages = await client.subscribed_topics.get_many(max_messages=_BATCH, timeout=0)
        call.returned(client, messages)
    for each in await client.subscriptions():
        # Not in the history: by now it has got all that it was owed.
        await client.topic(each.topic).unsubscribe()
