"""Subscribing, unsubscribing, deleting, and listing subscriptions."""

from __future__ import annotations

from telesto.db import calls
from telesto.middleware.common.failures import check_error
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.message_rows import page_rows
from telesto.middleware.scheduling.requests import Request
from telesto.middleware.scheduling.single_request import OneCall, Reply, Row, numbered
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import (
    ListSubscriptionsResponse,
    SubscribeResponse,
    SubscriptionFigures,
    SubscriptionState,
    Success,
)

#: Bytes of a subscription on the wire at most: 1,024 characters of four bytes, and the figures.
_ROW_BYTES = 4 * 1_024 + 96


def _subscribe(request: Request, _settings: ServerSettings) -> calls.Statement:
    packet = request.packet
    return calls.subscribe_numbered(
        **numbered(request),
        topic=packet.topic,
        max_behind=packet.max_behind,
        max_age_ms=packet.max_age_ms,
        drop_lagging=bool(packet.drop),
    )


def _subscribe_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    row, topic = rows[0], request.packet.topic
    check_error(row["error"], f"the client subscribes to topic {topic!r} already", row["subscription_id"])
    return Reply(SubscribeResponse(row["subscription_id"]), changed_topic=row["topic_id"])


def _unsubscribe(request: Request, _settings: ServerSettings) -> calls.Statement:
    return calls.unsubscribe_numbered(**numbered(request), topic=request.packet.topic)


def _unsubscribe_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    check_error(rows[0]["error"], f"the client does not subscribe to {request.packet.topic!r}")
    return Reply(Success(), changed_topic=rows[0]["topic_id"])


def _delete(request: Request, _settings: ServerSettings) -> calls.Statement:
    return calls.delete_topic_numbered(**numbered(request), topic=request.packet.topic)


def _delete_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    error, topic = rows[0]["error"], request.packet.topic
    in_use = error == ErrorCode.TOPIC_IN_USE
    check_error(error, f"topic {topic!r} has subscriptions" if in_use else f"there is no topic {topic!r}")
    return Reply(Success())


def _subscriptions(request: Request, settings: ServerSettings) -> calls.Statement:
    return calls.list_subscriptions(
        of_client=request.pipeline.client.client_id,
        after_id=request.packet.after_subscription_id,
        max_rows=page_rows(request, settings, _ROW_BYTES),
    )


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


SUBSCRIBE = OneCall(_subscribe, _subscribe_reply)
DELETE_TOPIC = OneCall(_delete, _delete_reply)
UNSUBSCRIBE = OneCall(_unsubscribe, _unsubscribe_reply)
LIST_SUBSCRIPTIONS = OneCall(_subscriptions, _subscriptions_reply)
