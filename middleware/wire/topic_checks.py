"""Checks the parameters of requests about topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.wire.checking import check_elements, check_not_negative, check_positive, invalid
from telesto.protocol import packets
from telesto.protocol.errors import MessageTooLargeError
from telesto.protocol.names import TOPIC_CHARACTERS_MAX, invisible_character

#: Bytes of one result of a put on the wire, at most.
_RESULT_BYTES = 12


def check_subscribe(packet: packets.Subscribe, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks Subscribe."""
    _check_topic(packet.topic)
    for field in ("max_behind", "max_age_ms"):
        value = getattr(packet, field)
        if value is not None:
            check_positive(field, value)
    if packet.drop and packet.max_behind is None and packet.max_age_ms is None:
        raise invalid("drop", "true", "given with a limit")


def check_topic(
    packet: packets.Unsubscribe | packets.DeleteTopic, _settings: ServerSettings, _frame_bytes: int
) -> None:
    """Checks packets that name a topic."""
    _check_topic(packet.topic)


def check_get(packet: packets.GetFromTopics, settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks GetFromTopics."""
    check_not_negative("subscription_id", packet.subscription_id)
    if packet.topic:
        _check_topic(packet.topic)
        if packet.subscription_id:
            raise invalid("topic", repr(packet.topic), "empty when subscription_id is given")
    if packet.max_messages < 1:
        raise invalid("max_messages", packet.max_messages, "at least 1")
    _check_positions(packet.positions, settings)


def check_confirm_positions(
    packet: packets.ConfirmPositions, settings: ServerSettings, _frame_bytes: int
) -> None:
    """Checks ConfirmPositions."""
    _check_positions(packet.positions, settings)


def check_put(packet: packets.PutToTopic, settings: ServerSettings, frame_bytes: int) -> None:
    """Checks PutToTopic."""
    _check_topic(packet.topic)
    if not packet.messages:
        raise invalid("messages", "an empty list", "at least one message")
    check_elements("messages", len(packet.messages), settings, frame_bytes, _RESULT_BYTES)
    for message in packet.messages:
        if message.sequence is not None:
            check_positive("sequence", message.sequence)
        if len(message.body) > settings.max_body_bytes:
            raise MessageTooLargeError(
                f"body: {len(message.body)} bytes, but at most {settings.max_body_bytes} are allowed"
            )


def check_topic_page(packet: packets.ListTopics, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks ListTopics."""
    check_not_negative("after_topic_id", packet.after_topic_id)
    check_positive("limit", packet.limit)


def check_subscription_page(
    packet: packets.ListSubscriptions, _settings: ServerSettings, _frame_bytes: int
) -> None:
    """Checks ListSubscriptions."""
    check_not_negative("after_subscription_id", packet.after_subscription_id)
    check_positive("limit", packet.limit)


def _check_topic(topic: str) -> None:
    if not 1 <= len(topic) <= TOPIC_CHARACTERS_MAX:
        raise invalid("topic", f"{len(topic)} characters", f"1 to {TOPIC_CHARACTERS_MAX} characters")
    if found := invisible_character(topic):
        raise invalid("topic", ascii(topic), f"without invisible characters, as {found}")


def _check_positions(positions: Sequence[Any], settings: ServerSettings) -> None:
    if len(positions) > settings.max_references:
        raise invalid("positions", f"{len(positions)} elements", f"at most {settings.max_references}")
    seen = set()
    for position in positions:
        check_positive("subscription_id", position.subscription_id)
        check_not_negative("confirmed", position.confirmed)
        check_not_negative("after", position.after)
        seen.add(position.subscription_id)
    if len(seen) != len(positions):
        raise invalid("positions", f"{len(positions)} elements", "each subscription once")
