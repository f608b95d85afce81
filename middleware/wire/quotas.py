"""Limits how much of the shared resources an address, a client and a connection may use."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum
from heapq import heapify, heappop, heappush
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from telesto.middleware.common.event_log import EventLog
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.dispatcher import Budget
from telesto.middleware.scheduling.requests import UNIDENTIFIED, Pipeline
from telesto.middleware.wire.user_quotas import QuotasOfUsers

if TYPE_CHECKING:
    from telesto.middleware.wire.connection import Connection, Connections


class Resource(IntEnum):
    """What the connections of a middleware share."""

    #: Bytes of requests and of incomplete frames.
    BYTES = 0
    #: Requests that wait in pipelines.
    REQUESTS = 1
    #: Reads that wait for messages.
    WAITING = 2
    #: Bytes of answers that peers have not read.
    UNSENT = 3
    CONSUMERS = 4


#: Resources that are freed by closing stalled connections.
_FREED_BY_CLOSING = (Resource.BYTES, Resource.REQUESTS, Resource.UNSENT)
#: Stalled connections are closed above this part of a budget.
NEARLY_USED_UP = 0.75
#: A connection must have been stalled for this time before it is closed, unless a budget is used up.
_GRACE_S = 0.5
#: Each client may use this much while the budget is not used up, whatever its address uses.
_SMALL = {Resource.BYTES: 64 << 10, Resource.REQUESTS: 16, Resource.CONSUMERS: 4}
#: The shortest time between two counts of all connections; it is also at least _PERIOD_FACTOR times as long
#: as a count takes.
_PERIOD_S = 0.05
_PERIOD_FACTOR = 20
#: Fewer unsent bytes of a connection are not counted: they fit the socket's buffer.
UNCOUNTED_UNSENT_BYTES = 16 << 10

_Use = list[int]


def _nothing() -> _Use:
    return [0] * len(Resource)


class Usage:
    """What addresses and clients use, and which connections have the most waiting reads.

    Attributes:
        taken_at: when it was counted, by the loop's clock in seconds.
        by_address: what each address uses.
    """

    def __init__(self, pipelines: list[tuple[Pipeline, _Use]], taken_at: float) -> None:
        self.taken_at = taken_at
        self.by_address: defaultdict[str, _Use] = defaultdict(_nothing)
        self._by_client: defaultdict[int, _Use] = defaultdict(_nothing)
        self._waiting: dict[str | None, tuple[int, int, Pipeline]] = {}
        once: set[int] = set()
        several: set[int] = set()
        for pipeline, use in pipelines:
            of_address, of_client = (
                self.by_address[pipeline.address],
                self._by_client[pipeline.client.client_id],
            )
            for resource, count in enumerate(use):
                of_address[resource] += count
                of_client[resource] += count
            (several if pipeline.client.client_id in once else once).add(pipeline.client.client_id)
        self._several = several - {UNIDENTIFIED.client_id}
        for pipeline, use in pipelines:
            rank = (
                self._by_client[pipeline.client.client_id][Resource.WAITING],
                use[Resource.WAITING],
                pipeline,
            )
            for scope in (None, pipeline.address):
                if scope not in self._waiting or rank[:2] > self._waiting[scope][:2]:
                    self._waiting[scope] = rank

    def of_client(self, pipeline: Pipeline, resource: Resource) -> int:
        """Returns what a client with several connections uses; 0 if this is its only connection."""
        client_id = pipeline.client.client_id
        return self._by_client[client_id][resource] if client_id in self._several else 0

    def waits_most(self, address: str | None) -> Pipeline:
        """Returns the pipeline that waits most, of the client with the most waiting reads."""
        return self._waiting[address][2]


class Quotas:
    """Prevents a few connections from using up what all of them need.

    An address may use a part of each budget (``address_share``). A client may use what its address has left,
    and always a small amount. When too many reads wait, the client with the most waiting reads loses one.
    While little of a budget is used, no quota can be exceeded, so nothing is counted.

    A connection is stalled when it has begun a frame and does not go on, or when its peer does not read.
    When a budget is nearly used up, stalled connections are closed: first those of the address that holds
    most, of these those of the client that holds most, and of these the connection that holds most.

    Attributes:
        of_users: the quotas of users who have some.
    """

    def __init__(
        self,
        settings: ServerSettings,
        loop: asyncio.AbstractEventLoop,
        budget: Budget,
        connections: Connections,
        events: EventLog,
    ) -> None:
        self.of_users = QuotasOfUsers(loop.time, connections, events)
        self._loop = loop
        self._budget = budget
        self._connections = connections
        self._events = events
        self._limits = [0] * len(Resource)
        self._limits[Resource.BYTES] = settings.budget_bytes
        self._limits[Resource.REQUESTS] = settings.budget_requests
        self._limits[Resource.WAITING] = settings.max_waiting_reads
        self._limits[Resource.UNSENT] = settings.budget_unsent_bytes
        self._limits[Resource.CONSUMERS] = settings.max_consumers
        self._caps = [max(1, int(limit * settings.address_share)) for limit in self._limits]
        # Half of the part that one address may not use is reserved for clients that use little.
        self._common = [(limit + cap + 1) // 2 for limit, cap in zip(self._limits, self._caps, strict=True)]
        self._calm = [cap // 2 for cap in self._caps]
        self._marks = [int(limit * NEARLY_USED_UP) for limit in self._limits]
        self._backlogged: dict[Connection, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._usage: Usage | None = None
        self._period_s = _PERIOD_S

    # --- admission ---------------------------------------------------------------------------

    def requests_left(self, pipeline: Pipeline, admitted: int = 0) -> int:
        """Returns how many requests of a connection may be admitted, beside those in its pipeline.

        ``admitted`` of them were admitted already and are not counted in the budget yet. If the result is not
        above ``admitted``, more may be admitted later.
        """
        budget = self._budget
        used = budget.requests + admitted
        if used < self._calm[Resource.REQUESTS] and budget.bytes < self._calm[Resource.BYTES]:
            return self._calm[Resource.REQUESTS] - budget.requests
        self._current_usage(pipeline, admitted)
        if not self._may_use(pipeline, Resource.BYTES, pipeline.size, budget.bytes):
            return 0
        use = self._use(pipeline, Resource.REQUESTS, len(pipeline.requests))
        left = self._left(pipeline, Resource.REQUESTS, budget.requests) - admitted
        small = min(_SMALL[Resource.REQUESTS] - use, self._limits[Resource.REQUESTS] - used)
        return admitted + max(0, small, (left - use + 1) // 2)

    def admitted(self, pipeline: Pipeline, requests: int, size: int) -> None:
        """Adds admitted requests to the last count."""
        if self._usage is not None:
            use = self._usage.by_address[pipeline.address]
            use[Resource.REQUESTS] += requests
            use[Resource.BYTES] += size

    def may_buffer(self, pipeline: Pipeline, buffered: int, grown: int) -> bool:
        """Tells whether a connection may keep ``buffered`` bytes, of which ``grown`` came just now."""
        self.admitted(pipeline, 0, grown)
        used = self._budget.bytes
        if used < self._calm[Resource.BYTES]:
            return True
        return self._may_use(pipeline, Resource.BYTES, pipeline.size + buffered, used)

    def whose_read_yields(self, pipeline: Pipeline, parked: int, at_address: int) -> Pipeline | None:
        """Returns the pipeline that loses a read when a read of ``pipeline`` starts to wait.

        Returns None if one more read may wait, and ``pipeline`` itself if no client has more waiting reads
        than its own. ``parked`` reads wait already, ``at_address`` of them for clients of the same address.
        """
        resource = Resource.WAITING
        of_address = at_address >= self._caps[resource]
        if parked < self._limits[resource] and not of_address:
            return None
        largest = self._current_usage().waits_most(pipeline.address if of_address else None)
        if largest.parked <= self._use(pipeline, resource, pipeline.parked) + 1:
            return pipeline
        return largest

    def may_join(self, pipeline: Pipeline, consumers: int) -> bool:
        """Tells whether a connection may have one more consumer; ``consumers`` is the number of all."""
        if consumers < self._calm[Resource.CONSUMERS]:
            return True
        return self._may_use(pipeline, Resource.CONSUMERS, len(pipeline.consumers), consumers)

    def _may_use(self, pipeline: Pipeline, resource: Resource, own: int, used: int) -> bool:
        if used >= self._limits[resource]:
            return False
        use = self._use(pipeline, resource, own)
        return use < _SMALL[resource] or use < self._left(pipeline, resource, used)

    def _use(self, pipeline: Pipeline, resource: Resource, own: int) -> int:
        """Returns what the client uses, if this connection uses ``own``."""
        return max(own, self._current_usage().of_client(pipeline, resource))

    def _left(self, pipeline: Pipeline, resource: Resource, used: int) -> int:
        """Returns how much the address may still use of a budget, of which ``used`` is in use."""
        of_address = self._current_usage().by_address[pipeline.address][resource]
        return min(self._common[resource] - used, self._caps[resource] - of_address)

    # --- counting ----------------------------------------------------------------------------

    def unsent(self, connection: Connection, size: int) -> None:
        """Sets how many bytes of a connection are unsent."""
        if connection not in self._backlogged:
            self._backlogged[connection] = None
            connection.unsent_since = self._loop.time()
        self._count_unsent(connection, size)
        self._watch()

    def forget(self, connection: Connection) -> None:
        """Forgets a connection that is gone."""
        self._count_unsent(connection, 0)
        self._backlogged.pop(connection, None)

    def close(self) -> None:
        """Stops counting."""
        if self._timer is not None:
            self._timer.cancel()

    def _count_unsent(self, connection: Connection, size: int) -> None:
        self._budget.unsent += size - connection.unsent
        connection.unsent = size

    def _recount_unsent(self) -> None:
        for connection in list(self._backlogged):
            size = connection.unsent_now()
            if size:
                self._count_unsent(connection, size)
            else:
                self.forget(connection)

    def _current_usage(self, pipeline: Pipeline | None = None, admitted: int = 0) -> Usage:
        """Returns the last count, or a new one if that is too old. ``admitted`` as in ``requests_left``."""
        self._watch()
        now = self._loop.time()
        if self._usage is None or now - self._usage.taken_at >= self._period_s:
            uses = [(connection.pipeline, _use_of(connection)) for connection in self._connections.snapshot()]
            self._usage = Usage(uses, now)
            if pipeline is not None:
                self._usage.by_address[pipeline.address][Resource.REQUESTS] -= admitted
            self._period_s = max(_PERIOD_S, _PERIOD_FACTOR * (self._loop.time() - now))
        return self._usage

    # --- closing stalled connections -----------------------------------------------------------

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._period_s, self._check)

    def _check(self) -> None:
        """Closes stalled connections as far as needed. Repeats while a budget or a backlog needs watching."""
        self._timer = None
        self._recount_unsent()
        budget = self._budget
        used = {
            Resource.BYTES: budget.bytes,
            Resource.REQUESTS: budget.requests,
            Resource.UNSENT: budget.unsent,
        }
        for resource in _FREED_BY_CLOSING:
            if used[resource] >= self._marks[resource]:
                self._close_stalled(resource, used[resource])
        if self._backlogged or any(used[resource] >= self._calm[resource] for resource in _FREED_BY_CLOSING):
            self._watch()
        else:
            self._usage = None

    def _close_stalled(self, resource: Resource, used: int) -> None:
        limit = self._limits[resource]
        self._events.warning(
            "budget_nearly_used_up", (resource,), budget=resource.name.lower(), used=used, limit=limit
        )
        since = self._loop.time() - (0.0 if used >= limit else _GRACE_S)
        held = []
        for connection in self._connections.snapshot():
            size = _held_by(connection, resource, since)
            if size:
                held.append((connection, size))
        for connection, size in _largest_first(held):
            connection.give_up(resource)
            used -= size
            if used < self._marks[resource]:
                break


def _use_of(connection: Connection) -> _Use:
    pipeline = connection.pipeline
    use = _nothing()
    use[Resource.BYTES] = pipeline.size + connection.buffered
    use[Resource.REQUESTS] = len(pipeline.requests)
    use[Resource.WAITING] = pipeline.parked
    use[Resource.UNSENT] = connection.unsent
    use[Resource.CONSUMERS] = len(pipeline.consumers)
    return use


def _held_by(connection: Connection, resource: Resource, since: float) -> int:
    """Returns what a connection holds if it has been stalled since then; otherwise 0."""
    pipeline = connection.pipeline
    if resource is Resource.UNSENT:
        return connection.unsent if connection.unsent_since <= since else 0
    slow = connection.slow_since is not None and connection.slow_since <= since
    if resource is Resource.REQUESTS:
        return len(pipeline.requests) if slow else 0
    late = connection.frame_since is not None and connection.frame_since <= since
    return (pipeline.size if slow else 0) + (connection.buffered if slow or late else 0)


def _largest_first(held: list[tuple[Connection, int]]) -> Iterable[tuple[Connection, int]]:
    """Orders connections: the next is always the largest one of the address that still holds the most."""
    of_client: defaultdict[object, int] = defaultdict(int)
    for connection, size in held:
        of_client[_client_of(connection)] += size
    by_address: defaultdict[str, list[tuple[Connection, int]]] = defaultdict(list)
    for connection, size in sorted(held, key=lambda item: (of_client[_client_of(item[0])], item[1])):
        by_address[connection.pipeline.address].append((connection, size))
    heap = [(-sum(size for _, size in items), address) for address, items in by_address.items()]
    heapify(heap)
    while heap:
        total, address = heappop(heap)
        connection, size = by_address[address].pop()
        yield connection, size
        if by_address[address]:
            heappush(heap, (total + size, address))


def _client_of(connection: Connection) -> object:
    client = connection.pipeline.client
    return connection if client is UNIDENTIFIED else client.client_id


def shown(peer: object) -> str:
    """Returns a peer, as its socket names it, for the log."""
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) > 1 else "local"


def is_loopback(peer: object) -> bool:
    """Tells whether a peer, as its socket names it, is on this machine."""
    if not isinstance(peer, tuple) or not peer:
        return True
    address = ip_address(str(peer[0]).partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def address_of(peer: object) -> str:
    """Returns the address for quotas: the host, or for IPv6 its /64 network, which one machine may own."""
    if not isinstance(peer, tuple) or not peer:
        return "local"
    host = str(peer[0])
    if ":" not in host:
        return host
    address = IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> 64 << 64)}/64"
