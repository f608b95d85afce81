"""What both clients tell of a message; messages that are cancelled."""

from collections.abc import Callable
from typing import Any

import pytest

from telesto.client import (
    ClientMode,
    ClientOptions,
    HistoryMode,
    InvalidParameterError,
    MessageNotExistingError,
    MessageState,
    Queue,
)

Connect = Callable[..., Any]


@pytest.fixture
def service_url(real_service_url: str) -> str:
    """The history needs the real service."""
    return real_service_url


@pytest.fixture
def queue_id(client: Any) -> int:
    queue: Queue = client.create_queue("orders", history=HistoryMode.FULL)
    return queue.queue_id


def test_a_message_is_known_from_its_put_to_its_confirmation(
    client: Any, connected: Connect, queue_id: int
) -> None:
    # It confirms nothing by itself.
    reader = connected("reader", mode=ClientMode.FULL, options=ClientOptions(confirm_after=3_600))
    message_id = client.put_message(queue_id, b"hello", priority=9)
    (ready,) = client.message_history(message_id).records
    assert (ready.state, ready.sender_id, ready.priority) == (MessageState.READY, client.client_id, 9)
    assert (ready.queue_name, ready.receiver_id, ready.client_id) == ("orders", None, None)
    assert ready.put_through is not None
    assert (ready.handed_over_at, ready.ended_at, ready.body) == (None, None, None)

    message = reader.retrieve_message(queue_id, timeout=0)
    assert client.message_history(message_id, queue_id).state is MessageState.HANDED_OVER
    reader_id = reader.client_id
    reader.confirm([message])
    reader.close()
    history = client.message_history(message_id)
    (over,) = history.records
    assert (history.message_id, history.state) == (message_id, MessageState.CONFIRMED)
    assert (over.client_id, over.client_name, over.body) == (reader_id, "reader", b"hello")
    assert over.put_at == message.time_of_arrival
    assert over.put_at <= over.handed_over_at <= over.ended_at
    assert over.put_address == over.handed_over_address is not None
    assert (over.consumer_id, over.lease_id) == (None, None)


def test_what_a_consumer_had_is_told(client: Any, queue_id: int) -> None:
    message_id = client.put_message(queue_id, b"x")
    with client.queue(queue_id).consume() as consumer:
        leased = consumer.get(60)
        (record,) = client.message_history(message_id).records
        assert (record.state, record.number, record.session) == (MessageState.LEASED, None, None)
        assert record.lease_id is not None
        assert record.deadline > record.handed_over_at
        leased.ack()
    (over,) = client.message_history(message_id).records
    assert (over.state, over.lease_id) == (MessageState.ACKNOWLEDGED, record.lease_id)
    assert (over.consumer_id, over.body) == (record.consumer_id, b"x")


def test_a_delayed_message_tells_its_time(client: Any, queue_id: int) -> None:
    message_id = client.put_message(queue_id, b"x", delay=3_600)
    (record,) = client.message_history(message_id).records
    assert record.state is MessageState.DELAYED
    assert (record.due_at - record.put_at).total_seconds() == 3_600


def test_what_was_given_back_is_told_first(client: Any, queue_id: int) -> None:
    message_id = client.put_message(queue_id, b"x")
    client.release([client.retrieve_message(queue_id, timeout=0)])
    records = client.message_history(message_id).records
    assert [record.state for record in records] == [MessageState.RETURNED, MessageState.READY]
    assert client.message_history(message_id).state is MessageState.READY


def test_an_unknown_message_is_an_error_of_its_own(client: Any, connected: Connect, queue_id: int) -> None:
    message_id = client.put_message(queue_id, b"x")
    other = client.create_queue("other").queue_id
    for unknown, queue in ((message_id + 1000, None), (message_id, other)):
        with pytest.raises(MessageNotExistingError, match=str(unknown)) as raised:
            client.message_history(unknown, queue)
        assert raised.value.related_id == unknown
    assert connected(mode=ClientMode.READ_ONLY).message_history(message_id).state is MessageState.READY


@pytest.mark.parametrize("arguments", [(0,), (-1,), (2**63,), (1, 0)])
def test_ids_that_cannot_be_are_refused(client: Any, arguments: tuple[int, ...]) -> None:
    with pytest.raises(InvalidParameterError):
        client.message_history(*arguments)


@pytest.mark.parametrize(
    "message", [{}, {"receiver_id": 1 << 40}, {"delay": 600}, {"partition_key": "a"}, {"priority": 9}]
)
def test_a_message_that_nobody_has_is_cancelled(client: Any, queue_id: int, message: dict[str, Any]) -> None:
    queue = client.queue(queue_id)
    kept = queue.put(b"kept", **message)
    message_id = queue.put(b"cancelled", **message)
    assert queue.cancel(message_id) is True
    assert queue.cancel(message_id) is False
    statistics = queue.statistics()
    assert (statistics.depth, statistics.directed_depth) == (1, int("receiver_id" in message))
    assert statistics.delayed == int("delay" in message)
    [record] = client.message_history(message_id).records
    assert (record.state, record.body) == (MessageState.CANCELLED, b"cancelled")
    assert queue.cancel(kept) is True
    assert queue.statistics().depth == 0


def test_a_message_that_a_client_has_or_had_is_not_cancelled(client: Any, queue_id: int) -> None:
    queue = client.queue(queue_id)
    message_id = queue.put(b"x")
    assert client.create_queue("another").cancel(message_id) is False
    assert queue.get(timeout=0).message_id == message_id
    assert queue.cancel(message_id) is False
    leased = queue.put(b"leased", partition_key="a")
    with queue.consume() as consumer:
        message = consumer.get(timeout=60)
        assert queue.cancel(leased) is False
        message.ack()
    assert queue.cancel(leased) is False
