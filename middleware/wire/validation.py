"""Checks the parameters of requests before they enter a pipeline, so that no request can fail a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from telesto.middleware.common.queue_settings import check_settings
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.message_rows import ANSWER_OVERHEAD_BYTES
from telesto.protocol import packets
from telesto.protocol.errors import InvalidParameterError, MessageTooLargeError
from telesto.protocol.headers import content_bytes, headers_problem
from telesto.protocol.names import (
    NAME_CHARACTERS_MAX,
    TOPIC_CHARACTERS_MAX,
    control_character,
    invisible_character,
)

#: The largest id, session or number that the database holds.
_ID_MAX = (1 << 63) - 1
_TOKEN_BYTES = 16
#: The longest time that a message may be delayed or wait, in milliseconds.
_TEN_YEARS_MS = 10 * 365 * 24 * 3600 * 1_000
#: The longest filter of a list, in characters.
LIKE_CHARACTERS_MAX = 1_024
#: The longest reason for which a consumer may reject a message, in characters.
REASON_MAX = 1_000
_PRIORITY_MIN, _PRIORITY_MAX = 1, 10
#: Bytes of one result of a put on the wire, at most: into queues, and into a topic.
_PUT_RESULT_BYTES = 20
_TOPIC_PUT_RESULT_BYTES = 12
#: Bytes of one result of an answer about leases on the wire, at most.
_ELEMENT_RESULT_BYTES = 12

#: Checks a packet, given the longest frame that its client accepts in bytes. Raises InvalidParameterError.
Check = Callable[[Any, ServerSettings, int], None]


def check_confirmed(number: int, confirmed: Sequence[int], settings: ServerSettings) -> None:
    """Checks the confirmed numbers of a request: they must be lower than its own."""
    if confirmed:
        _check_numbers("confirmed", confirmed, settings, number - 1 if number else _ID_MAX)


def check_put(packet: packets.PutMessage, settings: ServerSettings, frame_bytes: int) -> None:
    """Checks PutMessage."""
    _check_new_message(packet.message, settings)
    queue_ids = packet.queue_ids
    if len(queue_ids) == 1:
        if queue_ids[0] <= 0:
            raise invalid("queue_ids", queue_ids[0], "above 0")
        return
    if not queue_ids:
        raise invalid("queue_ids", "an empty list", "at least one queue")
    _check_elements("queue_ids", len(queue_ids), settings, frame_bytes)
    if min(queue_ids) <= 0:
        raise invalid("queue_ids", min(queue_ids), "above 0")
    if len(set(queue_ids)) != len(queue_ids):
        repeated = next(queue_id for queue_id in queue_ids if queue_ids.count(queue_id) > 1)
        raise invalid("queue_ids", repeated, "each queue once")


def check_put_many(packet: packets.PutMessages, settings: ServerSettings, frame_bytes: int) -> None:
    """Checks PutMessages."""
    if not packet.messages:
        raise invalid("messages", "an empty list", "at least one message")
    _check_elements("messages", len(packet.messages), settings, frame_bytes)
    for element in packet.messages:
        _check_positive("queue_id", element.queue_id)
        _check_new_message(element.message, settings)


def check_read(packet: packets.ReadMessage, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks ReadMessage."""
    if packet.queue_id <= 0:
        raise invalid("queue_id", packet.queue_id, "above 0")
    if packet.sender_id < 0:
        raise invalid("sender_id", packet.sender_id, "0 or above")
    if packet.max_messages < 1:
        raise invalid("max_messages", packet.max_messages, "at least 1")


def check_leases(packet: Any, settings: ServerSettings, frame_bytes: int) -> None:
    """Checks packets that name leases."""
    if not packet.leases:
        raise invalid("leases", "an empty list", "at least one message")
    _check_count("leases", packet.leases, settings)
    fitting = (frame_bytes - ANSWER_OVERHEAD_BYTES) // _ELEMENT_RESULT_BYTES
    if len(packet.leases) > fitting:
        raise invalid("leases", f"{len(packet.leases)} elements", f"at most {fitting}")


def check_nack(packet: packets.Nack, settings: ServerSettings, frame_bytes: int) -> None:
    """Checks Nack."""
    check_leases(packet, settings, frame_bytes)
    if packet.delay_ms is not None:
        _check_within("delay_ms", packet.delay_ms, 0, _TEN_YEARS_MS)
    if packet.reason is not None:
        if not 1 <= len(packet.reason) <= REASON_MAX or "\0" in packet.reason:
            raise invalid("reason", "this text", f"1 to {REASON_MAX} characters without NUL")
        if not packet.failed:
            raise invalid("reason", "a reason", "left out unless the attempt failed")
    elif packet.rejected:
        raise invalid("rejected", True, "given with a reason only")


def check_dead_letters(packet: Any, settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks packets that settle dead letters."""
    _check_positive("queue_id", packet.queue_id)
    _check_count("message_ids", packet.message_ids, settings)


def check_confirm(packet: packets.Confirm, settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks Confirm."""
    _check_numbers("confirmed", packet.confirmed, settings)
    _check_count("earlier", packet.earlier, settings)
    for reference in packet.earlier:
        _check_id("session", reference.session)
        _check_id("number", reference.number)
    _check_hand_overs(packet.hand_overs, settings)


def check_release(packet: packets.Release, settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks Release."""
    _check_hand_overs(packet.hand_overs, settings)


def check_list_unconfirmed(
    packet: packets.ListUnconfirmed, _settings: ServerSettings, _frame_bytes: int
) -> None:
    """Checks ListUnconfirmed."""
    for reference in (packet.after_operation, packet.after_hand_over):
        _check_id("session", reference.session)
        _check_id("number", reference.number)
    _check_not_negative("message_id", packet.after_hand_over.message_id)


def check_queue_id(packet: Any, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks packets that name a queue by its id."""
    _check_positive("queue_id", packet.queue_id)


def check_cancel(packet: packets.CancelMessage, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks CancelMessage."""
    _check_positive("queue_id", packet.queue_id)
    _check_positive("message_id", packet.message_id)


def check_queue_name(packet: packets.GetQueueId, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks packets that name a queue by its name."""
    check_name("queue_name", packet.queue_name)


def check_create_queue(packet: packets.CreateQueue, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks CreateQueue."""
    check_name("queue_name", packet.queue_name)
    check_settings(packet.settings)


def check_update_queue(packet: packets.UpdateQueue, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks UpdateQueue."""
    _check_positive("queue_id", packet.queue_id)
    check_settings(packet.settings, updating=True)


def check_message_history(
    packet: packets.GetMessageHistory, _settings: ServerSettings, _frame_bytes: int
) -> None:
    """Checks GetMessageHistory."""
    _check_positive("message_id", packet.message_id)
    if packet.queue_id is not None:
        _check_positive("queue_id", packet.queue_id)


def check_queue_page(packet: Any, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks the lists of queues."""
    _check_not_negative("after_queue_id", packet.after_queue_id)
    _check_positive("limit", packet.limit)


def check_browse(packet: Any, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks GetMessages and ListDeadLetters."""
    _check_positive("queue_id", packet.queue_id)
    _check_not_negative("after_message_id", packet.after_message_id)
    _check_positive("limit", packet.limit)


def check_register(packet: packets.RegisterClient, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks RegisterClient."""
    check_name("client_name", packet.client_name)
    _check_token(packet.token)


def check_identify(packet: packets.IdentifyClient, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks IdentifyClient."""
    if packet.token is not None:
        _check_token(packet.token)
    elif packet.resume:
        raise invalid("token", "nothing", "16 bytes when resume is true")
    if packet.client_id == 0:
        check_name("client_name", packet.client_name)
        return
    _check_positive("client_id", packet.client_id)
    if packet.client_name:
        raise invalid("client_name", repr(packet.client_name), "empty when client_id is given")


def check_subscribe(packet: packets.Subscribe, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks Subscribe."""
    _check_topic(packet.topic)
    for field in ("max_behind", "max_age_ms"):
        value = getattr(packet, field)
        if value is not None:
            _check_positive(field, value)
    if packet.drop and packet.max_behind is None and packet.max_age_ms is None:
        raise invalid("drop", "true", "given with a limit")


def check_topic(
    packet: packets.Unsubscribe | packets.DeleteTopic, _settings: ServerSettings, _frame_bytes: int
) -> None:
    """Checks packets that name a topic."""
    _check_topic(packet.topic)


def check_get_from_topics(packet: packets.GetFromTopics, settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks GetFromTopics."""
    _check_not_negative("subscription_id", packet.subscription_id)
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


def check_put_to_topic(packet: packets.PutToTopic, settings: ServerSettings, frame_bytes: int) -> None:
    """Checks PutToTopic."""
    _check_topic(packet.topic)
    if not packet.messages:
        raise invalid("messages", "an empty list", "at least one message")
    _check_elements("messages", len(packet.messages), settings, frame_bytes, _TOPIC_PUT_RESULT_BYTES)
    for message in packet.messages:
        if message.sequence is not None:
            _check_positive("sequence", message.sequence)
        _check_content(message, settings)


def check_topic_page(packet: packets.ListTopics, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks ListTopics."""
    _check_not_negative("after_topic_id", packet.after_topic_id)
    _check_positive("limit", packet.limit)
    _check_like(packet.like)


def check_subscription_page(
    packet: packets.ListSubscriptions, _settings: ServerSettings, _frame_bytes: int
) -> None:
    """Checks ListSubscriptions."""
    _check_not_negative("after_subscription_id", packet.after_subscription_id)
    _check_positive("limit", packet.limit)


def _check_like(like: str | None) -> None:
    if like is not None and (len(like) > LIKE_CHARACTERS_MAX or "\0" in like):
        raise invalid("like", like[:40], f"at most {LIKE_CHARACTERS_MAX} characters, none of them NUL")


def check_queue_list(packet: packets.ListQueues, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks ListQueues."""
    _check_not_negative("after_queue_id", packet.after_queue_id)
    _check_positive("limit", packet.limit)
    _check_like(packet.like)


def check_client_list(packet: packets.ListClients, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks ListClients."""
    _check_not_negative("after_client_id", packet.after_client_id)
    _check_positive("limit", packet.limit)
    _check_like(packet.like)


def check_consumer_list(packet: packets.ListConsumers, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Checks ListConsumers."""
    _check_not_negative("after_consumer_id", packet.after_consumer_id)
    _check_positive("limit", packet.limit)
    if packet.queue_id is not None:
        _check_positive("queue_id", packet.queue_id)


def check_middleware_list(
    packet: packets.ListMiddlewares, _settings: ServerSettings, _frame_bytes: int
) -> None:
    """Checks ListMiddlewares."""
    _check_not_negative("after_middleware_id", packet.after_middleware_id)
    _check_positive("limit", packet.limit)


def check_nothing(_packet: Any, _settings: ServerSettings, _frame_bytes: int) -> None:
    """Accepts any packet."""


def _check_token(token: bytes) -> None:
    if len(token) != _TOKEN_BYTES:
        raise invalid("token", f"{len(token)} bytes", f"{_TOKEN_BYTES} bytes")


def check_name(field: str, name: str) -> None:
    """Checks the name of a client or queue: 1 to 255 characters that can be seen."""
    if not 1 <= len(name) <= NAME_CHARACTERS_MAX:
        raise invalid(field, f"{len(name)} characters", f"1 to {NAME_CHARACTERS_MAX} characters")
    if found := invisible_character(name):
        raise invalid(field, ascii(name), f"without invisible characters, as {found}")


def _check_key(field: str, key: str) -> None:
    if not 1 <= len(key) <= NAME_CHARACTERS_MAX:
        raise invalid(field, f"{len(key)} characters", f"1 to {NAME_CHARACTERS_MAX} characters")
    if found := control_character(key):
        raise invalid(field, ascii(key), f"without control characters, as {found}")


def _check_new_message(message: packets.NewMessage, settings: ServerSettings) -> None:
    if not _PRIORITY_MIN <= message.priority <= _PRIORITY_MAX:
        raise invalid("priority", message.priority, f"{_PRIORITY_MIN} to {_PRIORITY_MAX}")
    if message.receiver_id < 0:
        raise invalid("receiver_id", message.receiver_id, "0 or above")
    if message.dedup_key is not None:
        _check_key("dedup_key", message.dedup_key)
    if message.partition_key is not None:
        _check_key("partition_key", message.partition_key)
        if message.receiver_id:
            raise invalid("partition_key", repr(message.partition_key), "nothing when there is a receiver_id")
    if message.delay_ms is not None:
        _check_within("delay_ms", message.delay_ms, 0, _TEN_YEARS_MS)
    if message.expires_ms is not None:
        _check_within("expires_ms", message.expires_ms, 0, _TEN_YEARS_MS)
    _check_content(message, settings)


def _check_content(message: packets.NewMessage | packets.NewTopicMessage, settings: ServerSettings) -> None:
    if message.headers is not None and (problem := headers_problem(message.headers)):
        raise InvalidParameterError(f"headers: {problem}")
    size = len(message.body) if message.headers is None else content_bytes(message)
    if size > settings.max_body_bytes:
        what = "body and headers" if message.headers else "body"
        raise MessageTooLargeError(f"{what}: {size} bytes, but at most {settings.max_body_bytes} are allowed")


def _check_numbers(field: str, numbers: Sequence[int], settings: ServerSettings, most: int = _ID_MAX) -> None:
    _check_count(field, numbers, settings)
    if numbers and max(numbers) > most:
        raise invalid(field, max(numbers), f"at most {most}")


def _check_hand_overs(references: Sequence[packets.HandOverRef], settings: ServerSettings) -> None:
    _check_count("hand_overs", references, settings)
    for reference in references:
        _check_id("session", reference.session)
        _check_id("number", reference.number)
        _check_positive("message_id", reference.message_id)


def _check_within(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise invalid(field, value, f"{least} to {most}")


def _check_count(field: str, items: Sequence[object], settings: ServerSettings) -> None:
    if len(items) > settings.max_references:
        raise invalid(field, f"{len(items)} elements", f"at most {settings.max_references}")


def _check_id(field: str, value: int) -> None:
    if value > _ID_MAX:
        raise invalid(field, value, f"at most {_ID_MAX}")


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
        _check_positive("subscription_id", position.subscription_id)
        _check_not_negative("confirmed", position.confirmed)
        _check_not_negative("after", position.after)
        seen.add(position.subscription_id)
    if len(seen) != len(positions):
        raise invalid("positions", f"{len(positions)} elements", "each subscription once")


def _check_elements(
    field: str, count: int, settings: ServerSettings, frame_bytes: int, result_bytes: int = _PUT_RESULT_BYTES
) -> None:
    """Checks the number of elements of a put. The results of all must fit into the frame of the answer."""
    fitting = (frame_bytes - ANSWER_OVERHEAD_BYTES) // result_bytes
    count_max = min(settings.max_put_elements, fitting)
    if count > count_max:
        raise invalid(field, f"{count} elements", f"at most {count_max}")


def _check_positive(field: str, value: int) -> None:
    """Checks an id or a count."""
    if value <= 0:
        raise invalid(field, value, "above 0")


def _check_not_negative(field: str, value: int) -> None:
    """Checks an id or a count that may be 0."""
    if value < 0:
        raise invalid(field, value, "0 or above")


def invalid(field: str, value: object, rule: str) -> InvalidParameterError:
    """Makes the error for a value that breaks a rule."""
    return InvalidParameterError(f"{field}: {value} is not allowed; it must be {rule}")
