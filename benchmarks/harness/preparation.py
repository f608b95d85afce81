"""What has to be there before the load begins: clients, queues, topics, subscriptions, the backlog."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from telesto.benchmarks.harness.participants import assign, groups_of, parts_of
from telesto.benchmarks.harness.settings import RunSettings
from telesto.benchmarks.load.bodies import BACKLOG_STREAM, BodyMaker, partition_key_of
from telesto.benchmarks.load.plan import Participant
from telesto.benchmarks.load.slot import PRIORITY_ALONE
from telesto.benchmarks.results.identity_space import Identities
from telesto.client import AsyncTelestoClient, HistoryMode, NewMessage

REGISTERING_AT_ONCE: Final = 32
PUBLISHING_AT_ONCE: Final = 512
TOPIC_WORKLOAD: Final = "fan-out"
_HISTORY: Final = {
    "none": HistoryMode.NONE,
    "metadata": HistoryMode.METADATA,
    "full": HistoryMode.FULL,
}


@dataclass(slots=True)
class Prepared:
    """What was made.

    Attributes:
        participants: who takes part.
        queue_ids: all queues.
        subscriptions: by the participant's number, the id of its subscription.
        backlogs: identities of the messages that wait, by the queue's id or the topic's name.
    """

    participants: list[Participant]
    queue_ids: list[int] = field(default_factory=list)
    subscriptions: dict[int, int] = field(default_factory=dict)
    backlogs: dict[int | str, Identities] = field(default_factory=dict)


async def prepare(settings: RunSettings, urls: Sequence[str]) -> Prepared:
    """Make everything through the service, in an empty database."""
    chosen = parts_of(settings)
    names = [f"bench-{number:05}" for number in range(len(chosen))]
    client_ids = await _register(names, urls)
    groups = groups_of(chosen)
    async with AsyncTelestoClient(urls[0]) as client:
        await client.connect(name="bench-preparation", existing="use")
        if settings.workload == TOPIC_WORKLOAD:
            topics = {group: [f"{group}-{number}" for number in _numbers(settings)] for group in groups}
            prepared = Prepared(assign(chosen, names, client_ids, topics))
            prepared.subscriptions = await _subscribe(prepared.participants, urls)
            prepared.backlogs = await _publish_backlogs(client, list(chain(*topics.values())), settings)
            return prepared
        queues = {group: await _create_queues(client, group, settings) for group in groups}
        queue_ids = [queue_id for of_group in queues.values() for queue_id in of_group]
        prepared = Prepared(assign(chosen, names, client_ids, queues), queue_ids)
        prepared.backlogs = await _fill(client, queue_ids, settings)
        return prepared


def _numbers(settings: RunSettings) -> range:
    return range(1, settings.queues + 1)


async def _create_queues(client: AsyncTelestoClient, group: str, settings: RunSettings) -> list[int]:
    history = _HISTORY[settings.history]
    names = [f"{group}-{number}" for number in _numbers(settings)]
    return [(await client.create_queue(name, history=history)).queue_id for name in names]


async def _register(names: Sequence[str], urls: Sequence[str]) -> list[int]:
    """Register clients, some at a time; return their ids."""
    some_at_a_time = asyncio.Semaphore(REGISTERING_AT_ONCE)

    async def register(index: int) -> int:
        async with some_at_a_time, AsyncTelestoClient(urls[index % len(urls)]) as client:
            await client.connect(name=names[index], existing="use")
            assert client.client_id is not None
            return client.client_id

    return list(await asyncio.gather(*(register(index) for index in range(len(names)))))


async def _subscribe(participants: Sequence[Participant], urls: Sequence[str]) -> dict[int, int]:
    """Subscribe whoever subscribes; return the ids of the subscriptions by the participants' numbers."""
    subscriptions = {}
    for each in participants:
        if each.role in ("subscriber", "away"):
            async with AsyncTelestoClient(urls[each.number % len(urls)]) as client:
                await client.connect(name=each.name, existing="use")
                subscriptions[each.number] = await client.subscribe(str(each.destination))
    return subscriptions


async def _fill(
    client: AsyncTelestoClient, queue_ids: Sequence[int], settings: RunSettings
) -> dict[int | str, Identities]:
    """Put a backlog, as many messages into each queue; return their identities by queue."""
    bodies = BodyMaker(BACKLOG_STREAM, settings.message_bytes)
    backlogs: dict[int | str, Identities] = {}
    for queue_id, count in zip(queue_ids, _shares(settings.backlog, len(queue_ids)), strict=True):
        identities: list[int] = []
        # They are made as they are sent: all together may not fit into memory.
        for result in await client.put_many(queue_id, _messages(bodies, count, settings, identities)):
            if result.error is not None:
                raise result.error
        backlogs[queue_id] = np.array(identities, np.uint64)
    return backlogs


def _messages(
    bodies: BodyMaker, count: int, settings: RunSettings, identities: list[int]
) -> Iterator[NewMessage]:
    """Make the messages of a backlog; note the identity of each."""
    for number in range(count):
        priority = settings.backlog_priority or (
            1 + number % settings.priority_spread if settings.priority_spread > 1 else PRIORITY_ALONE
        )
        identity, body = bodies.next(0.0, priority)
        identities.append(identity)
        key = partition_key_of(identity, settings.keys) if settings.keys else None
        yield NewMessage(body, priority=priority, partition_key=key)


async def _publish_backlogs(
    client: AsyncTelestoClient, topics: Sequence[str], settings: RunSettings
) -> dict[int | str, Identities]:
    """Put a backlog, as many messages to each topic; return their identities by topic."""
    bodies = BodyMaker(BACKLOG_STREAM, settings.message_bytes)
    backlogs: dict[int | str, Identities] = {}
    for topic, count in zip(topics, _shares(settings.backlog, len(topics)), strict=True):
        made = [bodies.next(0.0, 0) for _ in range(count)]
        for start in range(0, count, PUBLISHING_AT_ONCE):
            some = made[start : start + PUBLISHING_AT_ONCE]
            await asyncio.gather(*(client.put(topic, body) for _, body in some))
        backlogs[topic] = np.array([identity for identity, _ in made], np.uint64)
    return backlogs


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (index < total % parts) for index in range(parts)]
