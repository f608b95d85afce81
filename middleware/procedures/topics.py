"""Subscribing, unsubscribing, deleting and listing."""

from __future__ import annotations

from typing import Any

from telesto.middleware.common.failures import check_error
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.message_rows import page_rows
from telesto.middleware.scheduling.requests import Request
from telesto.middleware.scheduling.single_request import OneCall, Reply, Row, numbered
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import (
    ListSubscriptionsResponse,
    ListTopicsResponse,
    SubscribeResponse,
    SubscriptionFigures,
    SubscriptionState,
    Success,
    TopicFigures,
)

#: Bytes of a topic or a subscription on the wire at most: 1,024 characters of four bytes, and the figures.
_ROW_BYTES = 4 * 1_024 + 96


def _subscribe_arguments(request: Request, _settings: ServerSettings) -> tuple[Any, ...]:
    packet = request.packet
    limits = packet.max_behind, packet.max_age_ms, bool(packet.drop)
    return *numbered(request), packet.topic, *limits


def _subscribe_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    row, topic = rows[0], request.packet.topic
    check_error(row["error"], f"the client subscribes to topic {topic!r} already", row["subscription_id"])
    return Reply(SubscribeResponse(row["subscription_id"]), changed_topic=row["topic_id"])


def _topic_arguments(request: Request, _settings: ServerSettings) -> tuple[Any, ...]:
    return *numbered(request), request.packet.topic


def _unsubscribe_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    check_error(rows[0]["error"], f"the client does not subscribe to {request.packet.topic!r}")
    return Reply(Success(), changed_topic=rows[0]["topic_id"])


def _delete_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    error, topic = rows[0]["error"], request.packet.topic
    in_use = error == ErrorCode.TOPIC_IN_USE
    check_error(error, f"somebody subscribes to {topic!r}" if in_use else f"there is no topic {topic!r}")
    return Reply(Success())


def _topics_arguments(request: Request, settings: ServerSettings) -> tuple[Any, ...]:
    return request.packet.after_topic_id, page_rows(request, settings, _ROW_BYTES)


def _topics_reply(request: Request, rows: list[Row], settings: ServerSettings) -> Reply:
    more = len(rows) == page_rows(request, settings, _ROW_BYTES)
    columns = "topic_id", "name", "last_number", "subscribers", "depth"
    return Reply(ListTopicsResponse([TopicFigures(*(row[name] for name in columns)) for row in rows], more))


def _subscriptions_arguments(request: Request, settings: ServerSettings) -> tuple[Any, ...]:
    rows = page_rows(request, settings, _ROW_BYTES)
    return request.pipeline.client.client_id, request.packet.after_subscription_id, rows


def _subscriptions_reply(request: Request, rows: list[Row], settings: ServerSettings) -> Reply:
    more = len(rows) == page_rows(request, settings, _ROW_BYTES)
    return Reply(ListSubscriptionsResponse([_counters(row) for row in rows], more))


def _counters(row: Row) -> SubscriptionFigures:
    return SubscriptionFigures(
        subscription_id=row["subscription_id"],
        topic=row["topic"],
        position=row["position"],
        last_number=row["last_number"],
        state=SubscriptionState(row["state"]),
        max_behind=row["max_behind"],
        max_age_ms=row["max_age_ms"],
        drop=row["drop_lagging"] or None,
    )


SUBSCRIBE = OneCall(
    "SELECT * FROM telesto.subscribe_numbered($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    _subscribe_arguments,
    _subscribe_reply,
)
DELETE_TOPIC = OneCall(
    "SELECT * FROM telesto.delete_topic_numbered($1, $2, $3, $4, $5, $6)",
    _topic_arguments,
    _delete_reply,
)
UNSUBSCRIBE = OneCall(
    "SELECT * FROM telesto.unsubscribe_numbered($1, $2, $3, $4, $5, $6)",
    _topic_arguments,
    _unsubscribe_reply,
)
LIST_TOPICS = OneCall(
    "SELECT * FROM telesto.list_topics($1, $2)", _topics_arguments, _topics_reply, reads=True
)
LIST_SUBSCRIPTIONS = OneCall(
    "SELECT * FROM telesto.list_subscriptions($1, $2, $3)",
    _subscriptions_arguments,
    _subscriptions_reply,
    reads=True,
)
