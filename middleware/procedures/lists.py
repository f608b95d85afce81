"""Lists for people: queues and topics with what waits in them, clients, consumers, middlewares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from telesto.db import calls
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.message_rows import page_rows
from telesto.middleware.scheduling.requests import Request
from telesto.middleware.scheduling.single_request import OneCall, Reply, Row
from telesto.middleware.security.users import User, visible_to
from telesto.protocol.packets import (
    ClientFigures,
    ClientMode,
    ConsumerFigures,
    ListClientsResponse,
    ListConsumersResponse,
    ListMiddlewaresResponse,
    ListQueuesResponse,
    ListTopicsResponse,
    MiddlewareFigures,
    Packet,
    QueueFigures,
    TopicFigures,
)

#: Bytes of a row on the wire at most: four names of 255 characters of four bytes, and figures.
_ROW_BYTES = 4 * 4 * 255 + 512
_LIKE = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_", "*": "%", "?": "_"})


def _pattern(like: str | None) -> str | None:
    """What LIKE of SQL takes."""
    return None if like is None else like.translate(_LIKE)


def _list(
    statement: Callable[[Any, int, User | None], calls.Statement],
    response: Callable[[list[Any], bool], Packet],
    element: Callable[[Row], Any],
) -> OneCall:
    def make(request: Request, settings: ServerSettings) -> calls.Statement:
        return statement(request.packet, page_rows(request, settings, _ROW_BYTES), request.pipeline.user)

    def reply(request: Request, rows: list[Row], settings: ServerSettings) -> Reply:
        more = len(rows) == page_rows(request, settings, _ROW_BYTES)
        return Reply(response([element(row) for row in rows], more))

    return OneCall(make, reply)


def _queue(row: Row) -> QueueFigures:
    return QueueFigures(row["queue_id"], row["name"], row["depth"])


def _topic(row: Row) -> TopicFigures:
    return TopicFigures(row["topic_id"], row["name"], row["last_number"], row["subscribers"], row["depth"])


def _client(row: Row) -> ClientFigures:
    return ClientFigures(
        row["client_id"],
        row["name"],
        ClientMode(row["mode"]),
        row["temporary"],
        row["session_at"],
        row["unconfirmed"],
        row["subscriptions"],
        process=row["process"],
        library=row["library"],
        address=row["address"],
    )


def _consumer(row: Row) -> ConsumerFigures:
    return ConsumerFigures(
        row["consumer_id"],
        row["queue_id"],
        row["queue"],
        row["client_id"],
        row["client"] or "",
        row["middleware_id"],
        row["joined_at"],
        row["leases"],
        row["paused"],
        row["slow"],
    )


def _middleware(row: Row) -> MiddlewareFigures:
    return MiddlewareFigures(
        row["middleware_id"],
        row["address"],
        row["version"],
        row["started_at"],
        row["heartbeat_at"],
        row["consumers"],
    )


LIST_QUEUES = _list(
    lambda packet, rows, user: calls.list_queue_figures(
        after_id=packet.after_queue_id,
        max_rows=rows,
        pattern=_pattern(packet.like),
        visible=visible_to(user),
    ),
    ListQueuesResponse,
    _queue,
)
LIST_TOPICS = _list(
    lambda packet, rows, user: calls.list_topics(
        after_id=packet.after_topic_id,
        max_rows=rows,
        pattern=_pattern(packet.like),
        visible=visible_to(user),
    ),
    ListTopicsResponse,
    _topic,
)
LIST_CLIENTS = _list(
    lambda packet, rows, user: calls.list_client_figures(
        after_id=packet.after_client_id,
        max_rows=rows,
        pattern=_pattern(packet.like),
        asking_user=None if user is None or user.sees_all else user.user_id,
        visible=None if user is None else list(user.patterns["clients"]),
    ),
    ListClientsResponse,
    _client,
)
LIST_CONSUMERS = _list(
    lambda packet, rows, user: calls.list_consumers(
        after_id=packet.after_consumer_id,
        max_rows=rows,
        of_queue=packet.queue_id,
        visible=visible_to(user),
    ),
    ListConsumersResponse,
    _consumer,
)
LIST_MIDDLEWARES = _list(
    lambda packet, rows, user: calls.list_middlewares(after_id=packet.after_middleware_id, max_rows=rows),
    ListMiddlewaresResponse,
    _middleware,
)
