"""Queues and topics by their names: found when first used, and again when they were made anew."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from telesto.client import (
    ClientMode,
    ClientModePermissionError,
    HistoryMode,
    InvalidParameterError,
    QueueNotExistingError,
    QueueSettings,
    QueueSettingsDifferError,
    RequestTimeoutError,
)
from telesto.client.arguments import new_message
from telesto.client.calls.queue_calls import UpdateQueueCall

Connect = Callable[..., Any]
PATIENCE_S = 60.0
#: By then a handler that must not begin would have begun.
SECOND_WOULD_HAVE_BEGUN_S = 0.5


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
    failures_id = failures.queue_id
    orders = client.create_queue("orders", dead_letter_queue="failures")
    assert orders.settings().dead_letter_queue == "failures"
    orders.update(dead_letter_queue=None)
    assert orders.settings().dead_letter_queue is None
    orders.update(dead_letter_queue=failures)
    assert orders.settings() == QueueSettings(dead_letter_queue="failures")
    client.delete_queue(failures)
    assert orders.settings().dead_letter_queue == failures_id


# ---------------------------------------------------------------------------------- declared
def test_a_queue_is_declared_any_number_of_times(client: Any, connected: Connect) -> None:
    for declaring in (client, client, connected()):
        queue = declaring.declare_queue("orders", max_attempts=3, history=HistoryMode.FULL)
        assert queue.name == "orders"
        assert queue.settings().max_attempts == 3
    assert [each.name for each in client.get_queues()] == ["orders"]


def test_what_differs_is_told_or_changed(client: Any) -> None:
    client.create_queue("failures")
    client.create_queue("orders", max_messages=10, max_attempts=4)
    queue = client.declare_queue("orders")  # settings that are not given may be anything
    given = {"max_attempts": 3, "max_messages": 10, "dead_letter_queue": "failures"}
    with pytest.raises(QueueSettingsDifferError) as raised:
        client.declare_queue("orders", **given)
    assert (
        "max_attempts=4, not 3, dead_letter_queue=None, not 'failures'; update=True" in raised.value.details
    )
    assert queue.settings().max_attempts == 4
    assert client.declare_queue("orders", **given, update=True) == queue
    assert (queue.settings().max_attempts, queue.settings().dead_letter_queue) == (3, "failures")
    client.declare_queue("orders", **given)


def test_settings_are_one_value(client: Any) -> None:
    wanted = QueueSettings(lease=timedelta(minutes=2), backoff=1.1, history=HistoryMode.FULL)
    orders = client.create_queue("orders", wanted, backoff=0.25)
    assert orders.settings() == QueueSettings(lease=120, backoff=0.25, history=HistoryMode.FULL)
    assert client.declare_queue("orders", wanted, backoff=0.25) == orders
    with pytest.raises(QueueSettingsDifferError, match=r"has backoff=0\.25, not 1\.1;"):
        client.declare_queue("orders", wanted)
    assert client.declare_queue("orders", wanted, update=True) == orders
    assert orders.settings() == wanted
    orders.update(expires=60)
    client.declare_queue("orders", lease=120)  # what is not given may be anything,
    with pytest.raises(QueueSettingsDifferError, match=r"has expires=60\.0, not None;"):
        client.declare_queue("orders", wanted)  # but a value has all of them
    assert client.declare_queue("more", orders.settings()).settings() == orders.settings()


@pytest.mark.parametrize("times", [1, 2])
def test_a_queue_that_goes_while_its_settings_change_is_found_anew_once(
    client: Any, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    client.declare_queue("orders", max_attempts=4)
    made, refused = UpdateQueueCall.__init__, iter(range(times))

    def gone_meanwhile(call: UpdateQueueCall, *given: Any) -> None:
        if next(refused, None) is not None:
            raise QueueNotExistingError("it was deleted")
        made(call, *given)

    monkeypatch.setattr(UpdateQueueCall, "__init__", gone_meanwhile)
    if times == 1:
        assert client.declare_queue("orders", max_attempts=3, update=True).settings().max_attempts == 3
        return
    with pytest.raises(QueueNotExistingError, match="it was deleted"):
        client.declare_queue("orders", max_attempts=3, update=True)


def test_a_dead_letter_queue_that_is_not_there_is_refused(client: Any) -> None:
    client.declare_queue("orders")
    for wrong in ("nowhere", 999):
        with pytest.raises(QueueNotExistingError):
            client.declare_queue("orders", dead_letter_queue=wrong, update=True)


def test_a_reader_may_declare_what_is_there(client: Any, connected: Connect) -> None:
    reader = connected(mode=ClientMode.READ_ONLY)
    with pytest.raises(ClientModePermissionError):
        reader.declare_queue("orders")
    client.declare_queue("orders")
    assert reader.declare_queue("orders").get(timeout=0) is None


def test_clients_that_declare_at_once_get_one_queue(connected: Connect) -> None:
    clients = [connected() for _ in range(4)]
    with ThreadPoolExecutor(4) as executor:
        queues = list(executor.map(lambda each: each.declare_queue("orders", max_attempts=3), clients))
    assert len({queue.queue_id for queue in queues}) == 1


# ---------------------------------------------------------------------------------- lengths of time
def test_lengths_of_time_may_be_timedeltas(client: Any) -> None:
    message = new_message(b"", 5, None, None, delay=timedelta(hours=1), expires=timedelta(days=1))
    assert (message.delay_ms, message.expires_ms) == (3_600_000, 86_400_000)
    queue = client.create_queue("orders")
    assert queue.get(timeout=timedelta(milliseconds=5)) is None
    assert queue.get_many(9, timeout=timedelta(0)) == []
    with pytest.raises(RequestTimeoutError):
        queue.request(b"?", timeout=timedelta(milliseconds=5))
    for wrong in (timedelta(seconds=-1), timedelta(days=9999)):
        with pytest.raises(InvalidParameterError, match="delay must be above 0 and at most"):
            queue.put(b"x", delay=wrong)
    with pytest.raises(InvalidParameterError, match="timeout must be 0 or more"):
        queue.get(timeout=timedelta(seconds=-1))


# ---------------------------------------------------------------------------------- made anew


@pytest.mark.parametrize(
    "use",
    [
        lambda queue: queue.get(timeout=0),
        lambda queue: queue.get_many(5, timeout=0),
        lambda queue: list(queue.browse()),
        lambda queue: queue.statistics(),
        lambda queue: queue.settings(),
        lambda queue: queue.update(max_messages=5),
        lambda queue: list(queue.dead_letters()),
        lambda queue: queue.redrive(),
        lambda queue: queue.delete_dead_letters(),
    ],
)
def test_a_queue_made_anew_is_found(client: Any, connected: Connect, use: Callable[[Any], Any]) -> None:
    queue = client.create_queue("orders")
    queue.put(b"before")
    before = queue.queue_id
    made_anew(connected(), "orders")
    use(queue)
    assert queue.queue_id != before


def ask_in_vain(queue: Any) -> None:
    """Puts a request for whose response there is no time."""
    with pytest.raises(RequestTimeoutError):
        queue.request(b"x", timeout=0)


@pytest.mark.parametrize("put", [lambda queue: queue.put(b"x"), ask_in_vain])
def test_a_put_goes_to_the_new_queue(
    request: pytest.FixtureRequest, client: Any, connected: Connect, put: Callable[[Any], Any]
) -> None:
    """A state tells of one put: so there the application makes it anew."""
    queue = client.create_queue("orders")
    made_anew(connected(), "orders")
    if "durable" in request.node.name:
        with pytest.raises(QueueNotExistingError):
            put(queue)
    put(queue)
    assert queue.statistics().depth == 1


@pytest.mark.parametrize("remove", [lambda queue: queue.purge(), lambda queue: queue.delete()])
def test_what_removes_messages_spares_a_queue_made_anew(
    client: Any, connected: Connect, remove: Callable[[Any], Any]
) -> None:
    other = connected()
    queue = client.create_queue("orders")
    made_anew(other, "orders")
    other.put_message("orders", b"never seen")
    with pytest.raises(QueueNotExistingError):
        remove(queue)
    assert queue.statistics().depth == 1


def test_a_queue_that_is_named_in_an_argument_is_the_one_of_now(client: Any, connected: Connect) -> None:
    client.create_queue("failures")
    made_anew(connected(), "failures")
    orders = client.create_queue("orders", dead_letter_queue="failures")
    orders.update(dead_letter_queue=None)
    made_anew(connected(), "failures")
    orders.update(dead_letter_queue="failures")
    assert orders.settings().dead_letter_queue == "failures"  # not the id of the deleted one


def test_a_name_that_is_more_than_a_str_is_looked_up_once(client: Any) -> None:
    class Name(StrEnum):
        ORDERS = "orders"

    client.create_queue("orders")
    assert getattr(client.queue(Name.ORDERS), "client", client.queue("orders")) is getattr(
        client.queue("orders"), "client", client.queue("orders")
    )


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
@pytest.fixture
def real(open_client: Any, real_service_url: str) -> Callable[[str], Any]:
    """Opens clients of the real service; consumers need it."""

    def opened(name: str) -> Any:
        client = open_client(real_service_url, name=name)
        client.connect()
        return client

    return opened


def test_a_consumer_goes_on_with_the_new_queue(real: Callable[[str], Any]) -> None:
    client, other = real("worker"), real("operator")
    queue = client.create_queue("orders")
    with queue.consume() as consumer:
        queue.put(b"before")
        with consumer.get(timeout=PATIENCE_S) as leased:
            assert leased.body == b"before"
        made_anew(other, "orders")
        other.put_message("orders", b"new")
        with consumer.get(timeout=PATIENCE_S) as leased:
            assert leased.body == b"new"
        assert consumer.joins == 2
    assert queue.statistics().depth == queue.statistics().leased == 0


def test_a_consumer_of_a_queue_that_is_gone_ends(real: Callable[[str], Any]) -> None:
    client, other = real("worker"), real("operator")
    queue = client.create_queue("orders")
    with queue.consume() as consumer:
        other.delete_queue("orders")
        with pytest.raises(QueueNotExistingError):
            consumer.get(timeout=PATIENCE_S)


def test_a_stopped_consumer_joins_no_new_queue(real: Callable[[str], Any]) -> None:
    client, other = real("worker"), real("operator")
    queue = client.create_queue("orders")
    with queue.consume() as consumer:
        consumer.stop()
        made_anew(other, "orders")
        assert consumer.get(timeout=PATIENCE_S) is None
        assert consumer.joins == 1


def test_a_handler_that_ends_late_frees_no_partition_of_the_new_queue(real: Callable[[str], Any]) -> None:
    """What runs for the old queue has the key of a partition of the new one; that stays one at a time."""
    client, other = real("worker"), real("operator")
    queue = client.create_queue("orders")
    queue.put(b"old", partition_key="k")
    begun: SimpleQueue[bytes] = SimpleQueue()
    gates = {body: threading.Event() for body in (b"old", b"new 1", b"new 2")}

    def handle(message: Any) -> None:
        begun.put(message.body)
        assert gates[message.body].wait(PATIENCE_S)

    working = threading.Thread(
        target=queue.run_consumer, args=(handle,), kwargs={"concurrency": 3, "drain": 0}
    )
    working.start()
    try:
        assert begun.get(timeout=PATIENCE_S) == b"old"
        made_anew(other, "orders")
        for body in (b"new 1", b"new 2"):
            other.put_messages(["orders"], body, partition_key="k")
        assert begun.get(timeout=PATIENCE_S) == b"new 1"
        gates[b"old"].set()
        with pytest.raises(Empty):
            begun.get(timeout=SECOND_WOULD_HAVE_BEGUN_S)
        gates[b"new 1"].set()
        assert begun.get(timeout=PATIENCE_S) == b"new 2"
    finally:
        for gate in gates.values():
            gate.set()
        client.close()
        working.join(PATIENCE_S)
