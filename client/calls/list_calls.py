"""The application's requests for lists of what the service has, for people and tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from telesto.client.calls.queue_calls import Call
from telesto.client.models import ClientFigures, ConsumerFigures, MiddlewareFigures, QueueFigures, utc
from telesto.protocol import packets

RowT = TypeVar("RowT")


class QueueListCall(Call[tuple[list[QueueFigures], bool]], request=packets.ListQueues):
    """Asks for a page of queues; returns it and whether there is more."""

    def __init__(self, like: str | None, after_queue_id: int, limit: int) -> None:
        self._request = packets.ListQueues(after_queue_id, limit, like=like)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return self._request.encode(packet_id)

    def result(self) -> tuple[list[QueueFigures], bool]:
        """Returns the page and whether there is more."""
        return _page(self.response, self.response.queues, _queue)


class ClientListCall(Call[tuple[list[ClientFigures], bool]], request=packets.ListClients):
    """Asks for a page of clients; returns it and whether there is more."""

    def __init__(self, like: str | None, after_client_id: int, limit: int) -> None:
        self._request = packets.ListClients(after_client_id, limit, like=like)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return self._request.encode(packet_id)

    def result(self) -> tuple[list[ClientFigures], bool]:
        """Returns the page and whether there is more."""
        return _page(self.response, self.response.clients, _client)


class ConsumerListCall(Call[tuple[list[ConsumerFigures], bool]], request=packets.ListConsumers):
    """Asks for a page of consumers; returns it and whether there is more."""

    def __init__(self, queue_id: int | None, after_consumer_id: int, limit: int) -> None:
        self._request = packets.ListConsumers(after_consumer_id, limit, queue_id=queue_id)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return self._request.encode(packet_id)

    def result(self) -> tuple[list[ConsumerFigures], bool]:
        """Returns the page and whether there is more."""
        return _page(self.response, self.response.consumers, _consumer)


class MiddlewareListCall(Call[tuple[list[MiddlewareFigures], bool]], request=packets.ListMiddlewares):
    """Asks for a page of middlewares; returns it and whether there is more."""

    def __init__(self, after_middleware_id: int, limit: int) -> None:
        self._request = packets.ListMiddlewares(after_middleware_id, limit)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return self._request.encode(packet_id)

    def result(self) -> tuple[list[MiddlewareFigures], bool]:
        """Returns the page and whether there is more."""
        return _page(self.response, self.response.middlewares, _middleware)


def _page(response: Any, rows: list[Any], row: Callable[[Any], RowT]) -> tuple[list[RowT], bool]:
    return [row(each) for each in rows], bool(rows) and response.more


def _queue(row: packets.QueueFigures) -> QueueFigures:
    return QueueFigures(row.queue_id, row.name, row.depth)


def _client(row: packets.ClientFigures) -> ClientFigures:
    return ClientFigures(
        row.client_id,
        row.name,
        row.mode,
        row.temporary,
        utc(row.session_at),
        row.process,
        row.library,
        row.address,
        row.unconfirmed,
        row.subscriptions,
    )


def _consumer(row: packets.ConsumerFigures) -> ConsumerFigures:
    return ConsumerFigures(
        row.consumer_id,
        row.queue_id,
        row.queue,
        row.client_id,
        row.client or None,
        row.middleware_id,
        utc(row.joined_at),
        row.leases,
        row.paused,
        row.slow,
    )


def _middleware(row: packets.MiddlewareFigures) -> MiddlewareFigures:
    return MiddlewareFigures(
        row.middleware_id,
        row.address,
        row.version,
        utc(row.started_at),
        utc(row.heartbeat_at),
        row.consumers,
    )
