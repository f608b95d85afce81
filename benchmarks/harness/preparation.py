"""Prepares a run before its load begins: clients with their roles, queues, topics, the backlog."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from telesto.benchmarks.load.bodies import BACKLOG_STREAM, BodyMaker, partition_key_of
from telesto.benchmarks.load.plan import ACTIVE_ROLES, Participant, Role
from telesto.benchmarks.load.settings import MIX_STEP, RunSettings
from telesto.benchmarks.load.slot import PRIORITY_ALONE
from telesto.benchmarks.results.audit import Identities
from telesto.client import AsyncTelestoClient, HistoryMode, NewMessage

PEERS_MAX = 1_000
"""A client sends to at most this many others: with more, the plans of many clients would be huge."""


@dataclass(frozen=True, slots=True)
class Part:
    """A client's part in the workload, before there are any ids.

    Attributes:
        group: clients of a group share queues.
        partner: the number of the client to which it sends; None for anyone.
        sends_to: it sends to a random client of its group with this role.
    """

    role: Role
    group: str
    partner: int | None = None
    sends_to: Role | None = None


def parts_of(settings: RunSettings) -> list[Part]:
    """Return the part of each client: as many as the settings say, less one without a partner.

    Subscriptions of clients that are away are added.
    """
    clients, workload, open_loop = settings.clients, settings.workload, settings.loop == "open"
    match workload:
        case "one-way":
            return _one_way(clients, open_loop)
        case "pairs":
            return _pairs(clients, 0)
        case "pool":
            return _pool(clients)
        case "mix":
            return _mix(clients, open_loop)
        case "fan-out":
            roles = _split("subscriber", settings.subscribers, "publisher", clients)
            roles += ["away"] * settings.away
        case "consume":
            roles = _split("consumer", settings.consumers, "putter", clients)
        case _:
            roles = [_ROLES[workload]] * clients
    return [Part(role, workload) for role in roles]


_ROLES: Final[Mapping[str, Role]] = {
    "put": "putter", "put-read": "put-reader", "read": "reader", "drain": "reader", "idle": "idle"
}  # fmt: skip
"""The role of every client in workloads with one role."""


def _split(first: Role, count: int, other: Role, clients: int) -> list[Role]:
    """Return `count` of one role, spread evenly among the others, so that every process gets both."""
    return [
        first if (index + 1) * count // clients > index * count // clients else other
        for index in range(clients)
    ]


def _one_way(clients: int, open_loop: bool) -> list[Part]:
    """Each client sends to random others; in an open loop half of them send and half receive."""
    if not open_loop:
        return [Part("one-way", "one-way", sends_to="one-way") for _ in range(clients)]
    roles = _split("receiver", clients // 2, "sender", clients)
    return [Part(role, "one-way", sends_to="receiver" if role == "sender" else None) for role in roles]


def _pairs(clients: int, first: int) -> list[Part]:
    """Return requesters, each followed by the client that responds; `first` is the first one's number."""
    found = []
    for index in range(clients // 2):
        found.append(Part("requester", "pairs", partner=first + 2 * index + 1))
        found.append(Part("responder", "pairs"))
    return found


def _pool(clients: int) -> list[Part]:
    """Return two pools of equal size that share a queue."""
    return [Part("responder" if index % 2 else "requester", "pool") for index in range(clients - clients % 2)]


def _mix(clients: int, open_loop: bool) -> list[Part]:
    """Return five ninths one-way clients, two ninths in pairs, two ninths in the two pools."""
    ninths = 2 * clients // MIX_STEP
    paired = ninths - ninths % 2
    found = _one_way(clients - 2 * paired, open_loop)
    return found + _pairs(paired, len(found)) + _pool(paired)


def groups_of(chosen: Sequence[Part]) -> list[str]:
    """Return the groups that need queues, in a fixed order."""
    return sorted({part.group for part in chosen})


def assign(
    chosen: Sequence[Part],
    names: Sequence[str],
    client_ids: Sequence[int],
    queues: Mapping[str, Sequence[int | str]],
) -> list[Participant]:
    """Give the parts names and ids. Clients are spread over the queues of their group; partners share one."""
    participants = []
    met: dict[tuple[str, Role, int | str], list[int]] = {}
    used = _queues_of(chosen, queues)
    for index, part in enumerate(chosen):
        met.setdefault((part.group, part.role, used[index]), []).append(client_ids[index])
    for index, part in enumerate(chosen):
        peers: Sequence[int] = ()
        if part.partner is not None:
            peers = [client_ids[part.partner]]
        elif part.sends_to is not None:
            peers = _others(met.get((part.group, part.sends_to, used[index]), []), client_ids[index])
        participants.append(Participant(index, names[index], part.role, used[index], tuple(peers)))
    return participants


def _queues_of(chosen: Sequence[Part], queues: Mapping[str, Sequence[int | str]]) -> list[int | str]:
    """Return the queue of each client; where clients need each other, two neighbours share one."""
    counts: dict[str, int] = {}
    roles: dict[str, set[Role]] = {}
    for part in chosen:
        roles.setdefault(part.group, set()).add(part.role)
    used = []
    for part in chosen:
        number = counts.get(part.group, 0)
        counts[part.group] = number + 1
        of_group = queues[part.group]
        together = 2 if part.sends_to is not None or len(roles[part.group]) > 1 else 1
        used.append(of_group[number // together % len(of_group)])
    return used


def _others(client_ids: Sequence[int], own: int) -> list[int]:
    """Return the clients to which a client may send: all others, or its neighbours if there are too many."""
    others = [client_id for client_id in client_ids if client_id != own]
    if len(others) <= PEERS_MAX:
        return others
    start = own % len(others)
    return (others[start:] + others[:start])[:PEERS_MAX]


def share_out(participants: Sequence[Participant], processes: int) -> list[list[Participant]]:
    """Spread the connected clients over processes, each with some of every role."""
    there = [each for each in participants if each.role != "away"]
    # With several roles, neighbours stay together, so that every process has clients that send.
    together = 2 if len({each.role for each in there}) > 1 else 1
    shares: list[list[Participant]] = [[] for _ in range(min(processes, -(-len(there) // together)))]
    for each in there:
        shares[each.number // together % len(shares)].append(each)
    return shares


def sending(participants: Sequence[Participant]) -> int:
    """Count the clients that send on their own."""
    return sum(each.role in ACTIVE_ROLES for each in participants)


REGISTERING_AT_ONCE: Final = 32
PUBLISHING_AT_ONCE: Final = 512
TOPIC_WORKLOAD: Final = "fan-out"
_HISTORY: Final = {"none": HistoryMode.NONE, "metadata": HistoryMode.METADATA, "full": HistoryMode.FULL}


@dataclass(slots=True)
class Prepared:
    """What was prepared.

    Attributes:
        subscriptions: the id of its subscription, by the participant's number.
        backlogs: identities of the waiting messages, by the queue's id or the topic's name.
    """

    participants: list[Participant]
    queue_ids: list[int] = field(default_factory=list)
    subscriptions: dict[int, int] = field(default_factory=dict)
    backlogs: dict[int | str, Identities] = field(default_factory=dict)


async def prepare(settings: RunSettings, urls: Sequence[str]) -> Prepared:
    """Create everything through the service, in an empty database."""
    chosen = parts_of(settings)
    names = [f"bench-{number:05}" for number in range(len(chosen))]
    client_ids = await _register(names, urls)
    groups = groups_of(chosen)
    async with AsyncTelestoClient(urls[0], name="bench-preparation") as client:
        await client.connect()
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
        async with some_at_a_time, AsyncTelestoClient(urls[index % len(urls)], name=names[index]) as client:
            await client.connect()
            assert client.client_id is not None
            return client.client_id

    return list(await asyncio.gather(*(register(index) for index in range(len(names)))))


async def _subscribe(participants: Sequence[Participant], urls: Sequence[str]) -> dict[int, int]:
    """Subscribe the subscribers; return the ids of the subscriptions by the participants' numbers."""
    subscriptions = {}
    for each in participants:
        if each.role in ("subscriber", "away"):
            async with AsyncTelestoClient(urls[each.number % len(urls)], name=each.name) as client:
                await client.connect()
                subscriptions[each.number] = await client.topic(str(each.destination)).subscribe()
    return subscriptions


async def _fill(
    client: AsyncTelestoClient, queue_ids: Sequence[int], settings: RunSettings
) -> dict[int | str, Identities]:
    """Put a backlog, spread evenly over the queues; return the identities by queue."""
    bodies = BodyMaker(BACKLOG_STREAM, settings.message_bytes)
    backlogs: dict[int | str, Identities] = {}
    for queue_id, count in zip(queue_ids, _shares(settings.backlog, len(queue_ids)), strict=True):
        identities: list[int] = []
        # Messages are made as they are sent: all of them may not fit into memory.
        for result in await client.queue(queue_id).put_many(_messages(bodies, count, settings, identities)):
            if result.error is not None:
                raise result.error
        backlogs[queue_id] = np.array(identities, np.uint64)
    return backlogs


def _messages(
    bodies: BodyMaker, count: int, settings: RunSettings, identities: list[int]
) -> Iterator[NewMessage]:
    """Make the messages of a backlog; record the identity of each."""
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
    """Put a backlog, spread evenly over the topics; return the identities by topic."""
    bodies = BodyMaker(BACKLOG_STREAM, settings.message_bytes)
    backlogs: dict[int | str, Identities] = {}
    for topic, count in zip(topics, _shares(settings.backlog, len(topics)), strict=True):
        made = [bodies.next(0.0, 0) for _ in range(count)]
        for start in range(0, count, PUBLISHING_AT_ONCE):
            some = made[start : start + PUBLISHING_AT_ONCE]
            await asyncio.gather(*(client.topic(topic).put(body) for _, body in some))
        backlogs[topic] = np.array([identity for identity, _ in made], np.uint64)
    return backlogs


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (index < total % parts) for index in range(parts)]
