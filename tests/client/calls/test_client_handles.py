"""Queues and topics by their names: found when first used, and again when they were made anew."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from telesto.client import InvalidParameterError, QueueNotExistingError, TelestoClient

Connect = Callable[..., Any]
PATIENCE_S = 60.0


def made_anew(client: Any, name: str) -> None:
    """Deletes a queue by its id, as another process would, and makes a new one of its name."""
    client.delete_queue(client.get_queue_by_name(name).queue_id)
    client.create_queue(name)


# ---------------------------------------------------------------------------------- finding


def test_a_handle_asks_nothing_until_it_is_used(client: Any) -> None:
    queue = client.queue("later")
    assert (queue.name, queue.queue_id) == ("later", 0)
    with pytest.raises(QueueNotExistingError):
        queue.put(b"x")
    created = client.create_queue("later")
    queue.put(b"x")
    assert queue.queue_id == created.queue_id
    assert queue.get(timeout=0).body == b"x"


def test_flat_calls_take_a_handle_a_name_or_an_id(client: Any) -> None:
    queue = client.create_queue("orders")
    for given in (queue, "orders", queue.queue_id):
        client.put_message(given, b"x")
        assert client.retrieve_message(given, timeout=0).body == b"x"
        assert client.put_messages([given], b"y")[0].error is None
        assert [message.body for message in client.read_messages(given)] == [b"y"]
        assert client.queue(given).purge() == 1
    client.delete_queue("orders")
    with pytest.raises(QueueNotExistingError):
        client.put_message("orders", b"x")


def test_queues_of_one_name_are_equal(client: Any, connected: Connect) -> None:
    queue = client.create_queue("orders")
    assert client.queue("orders") == queue == client.get_queue_by_name("orders")
    assert client.queue("others") != queue
    assert connected().queue("orders") != queue
    assert len({queue, client.queue("orders"), client.queue("others")}) == 2


def test_a_queue_of_another_client_can_be_given(client: Any, connected: Connect) -> None:
    queue = connected().create_queue("orders")
    client.put_message(queue, b"x")
    assert client.queue(queue).get(timeout=0).body == b"x"
    assert client.queue(queue) == client.queue("orders")


def test_handles_say_what_they_are(client: Any) -> None:
    queue = client.create_queue("orders")
    shown = [repr(getattr(each, "client", each)) for each in (queue, client.queue(7), client.topic("prices"))]
    assert [text.replace("Async", "") for text in shown] == [
        "<Queue 'orders'>",
        "<Queue 7>",
        "<Topic 'prices'>",
    ]


@pytest.mark.parametrize(("given", "error"), [("", InvalidParameterError), (0, InvalidParameterError)])
def test_what_names_no_queue_is_refused_at_once(client: Any, given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="queue must"):
        client.queue(given)


@pytest.mark.parametrize("given", [None, True, 1.5, b"orders"])
def test_what_is_no_queue_is_refused_at_once(client: Any, given: Any) -> None:
    with pytest.raises(TypeError, match="queue must be a queue, its name or its id, not"):
        client.queue(given)


def test_dead_letters_go_to_a_queue_by_its_name_or_handle(client: Any) -> None:
    failures = client.create_queue("failures")
    orders = client.create_queue("orders", dead_letter_queue="failures")
    assert orders.settings().dead_letter_queue == failures.queue_id
    orders.update(dead_letter_queue=None)
    assert orders.settings().dead_letter_queue is None
    orders.update(dead_letter_queue=failures)
    assert orders.settings().dead_letter_queue == failures.queue_id


# ---------------------------------------------------------------------------------- made anew


@pytest.mark.parametrize(
    "use",
    [
        lambda queue: queue.put(b"x"),
        lambda queue: queue.get(timeout=0),
        lambda queue: queue.get_many(5, timeout=0),
        lambda queue: list(queue.browse()),
        lambda queue: queue.statistics(),
        lambda queue: queue.settings(),
        lambda queue: queue.update(max_messages=5),
        lambda queue: queue.purge(),
        lambda queue: queue.redrive(),
        lambda queue: queue.request(b"x", timeout=0.01),
        lambda queue: queue.delete(),
    ],
)
def test_a_queue_made_anew_is_found(client: Any, connected: Connect, use: Callable[[Any], Any]) -> None:
    queue = client.create_queue("orders")
    queue.put(b"before")
    before = queue.queue_id
    made_anew(connected(), "orders")
    use(queue)
    assert queue.queue_id != before


def test_a_queue_that_is_gone_is_told(client: Any, connected: Connect) -> None:
    queue = client.create_queue("orders")
    connected().delete_queue("orders")
    for _ in range(2):
        with pytest.raises(QueueNotExistingError):
            queue.put(b"x")


def test_a_queue_known_by_its_id_is_not_looked_for(client: Any, connected: Connect) -> None:
    queue = client.queue(client.create_queue("orders").queue_id)
    made_anew(connected(), "orders")
    with pytest.raises(QueueNotExistingError):
        queue.put(b"x")


def test_many_puts_find_the_new_queue_the_next_time(client: Any, connected: Connect) -> None:
    queue = client.create_queue("orders")
    made_anew(connected(), "orders")
    assert {type(result.error) for result in queue.put_many([b"1", b"2"])} == {QueueNotExistingError}
    assert {result.error for result in queue.put_many([b"1", b"2"])} == {None}


def test_a_get_that_waits_goes_on_with_the_new_queue(client: Any, connected: Connect) -> None:
    other = connected()
    queue = client.create_queue("orders")
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(queue.get, timeout=PATIENCE_S)
        made_anew(other, "orders")
        try:
            other.put_message("orders", b"new")
            assert waiting.result(PATIENCE_S).body == b"new"
        except QueueNotExistingError:
            # It asked for the queue between the two, or its first request came before the deletion.
            assert queue.get(timeout=PATIENCE_S).body == b"new"


# ---------------------------------------------------------------------------------- consumers


def test_a_consumer_goes_on_with_the_new_queue(real_service_url: str) -> None:
    with TelestoClient(real_service_url) as client, TelestoClient(real_service_url) as other:
        client.connect("worker", existing="use")
        other.connect("operator", existing="use")
        queue = client.create_queue("orders")
        with queue.consume() as consumer:
            queue.put(b"before")
            with consumer.get(timeout=PATIENCE_S) as leased:  # type: ignore[union-attr]
                assert leased.body == b"before"
            made_anew(other, "orders")
            other.put_message("orders", b"new")
            with consumer.get(timeout=PATIENCE_S) as leased:  # type: ignore[union-attr]
                assert leased.body == b"new"
            assert consumer.joins == 2
        assert queue.statistics().depth == queue.statistics().leased == 0
        queue.delete()


def test_a_consumer_of_a_queue_that_is_gone_ends(real_service_url: str) -> None:
    with TelestoClient(real_service_url) as client, TelestoClient(real_service_url) as other:
        client.connect("worker", existing="use")
        other.connect("operator", existing="use")
        queue = client.create_queue("orders")
        with queue.consume() as consumer:
            other.delete_queue("orders")
            with pytest.raises(QueueNotExistingError):
                consumer.get(timeout=PATIENCE_S)
