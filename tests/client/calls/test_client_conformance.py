"""What every method does: the same for both clients, against the service in memory and the real one."""

import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from faults.waiting import wait_until
from shells import Open, noted
from telesto.client import (
    ClientClosedError,
    ClientMode,
    ClientModePermissionError,
    ClientNameNotUniqueError,
    ClientNotExistingError,
    ClientOptions,
    ClientRecord,
    HistoryMode,
    InvalidParameterError,
    MessageTooLargeError,
    NewMessage,
    NotConnectedError,
    Queue,
    QueueFullError,
    QueueNameNotUniqueError,
    QueueNotExistingError,
    QueueSettings,
    ReadMode,
    RequestTimeoutError,
    SessionFencedError,
)
from telesto.client.connection.link import Link
from telesto.client.session.session import Session

Connect = Callable[..., Any]

BY_HAND = ClientOptions(auto_confirm=False)


@pytest.fixture
def queue_id(client: Any) -> int:
    queue: Queue = client.create_queue("orders")
    return queue.queue_id


def in_background(action: Callable[[], Any]) -> Callable[[], Any]:
    """Starts something in a thread; returns what waits for its result."""
    executor = ThreadPoolExecutor(1)
    outcome = executor.submit(action)
    executor.shutdown(wait=False)

    def wait() -> Any:
        return outcome.exception(60) or outcome.result()

    return wait


ORDERS = "orders of others"


def expired(queue: Any) -> None:
    """Asks what nobody answers."""
    with pytest.raises(RequestTimeoutError):
        queue.request(b"x", timeout=0)


# ---------------------------------------------------------------------------------- connecting
def test_ping_needs_no_client(open_client: Open, service_url: str) -> None:
    assert 0 < open_client(service_url).ping() < 5


def test_connect_makes_a_client(connected: Connect) -> None:
    client = connected("alice")
    assert client.name == "alice"
    assert client.client_id > 0
    assert client.mode is ClientMode.FULL
    assert client.session > 0
    assert client.connected
    assert client.address.startswith("127.0.0.1:")


def test_a_taken_name_is_refused(connected: Connect) -> None:
    connected("alice")
    with pytest.raises(ClientNameNotUniqueError) as caught:
        connected("alice", existing="error")
    assert caught.value.details == (
        "a client named 'alice' exists already, and existing=\"error\" was asked for"
    )


def test_an_existing_client_may_be_used(connected: Connect) -> None:
    first = connected("alice")
    session = first.session
    first.close()
    second = connected("alice")
    assert second.client_id == first.client_id
    assert second.session > session


def test_existing_error_makes_a_new_client(connected: Connect) -> None:
    assert connected("alice", existing="error").client_id > 0


def test_connect_by_id(connected: Connect, open_client: Open, service_url: str) -> None:
    first = connected("alice")
    client_id = first.client_id
    first.close()
    second = open_client(service_url, client_id=client_id)
    second.connect()
    assert second.name == "alice"
    third = open_client(service_url, client_id=client_id + 1000)
    with pytest.raises(ClientNotExistingError):
        third.connect()


def test_the_url_names_the_client(open_client: Open, service_url: str) -> None:
    parameters = "name=alice&mode=read_only"
    url = f"{service_url}&{parameters}" if "?" in service_url else f"{service_url}/?{parameters}"
    client = open_client(url)
    client.connect()
    assert (client.name, client.mode) == ("alice", ClientMode.READ_ONLY)


def test_an_existing_client_keeps_its_mode(connected: Connect) -> None:
    connected("alice", mode=ClientMode.READ_ONLY).close()
    assert connected("alice").mode is ClientMode.READ_ONLY
    with pytest.raises(ClientModePermissionError, match=r"CLIENT_MODE|READ_ONLY"):
        connected("alice", mode=ClientMode.FULL, existing="take_over")


def test_a_client_that_is_refused_for_its_mode_is_not_taken_over(
    client: Any, queue_id: int, connected: Connect
) -> None:
    client.queue(queue_id).put_many([b"1", b"2"])
    live = connected("alice", mode=ClientMode.READ_ONLY)
    session = live.session
    assert live.retrieve_message(queue_id, timeout=0).body == b"1"
    with pytest.raises(ClientModePermissionError):
        connected("alice", mode=ClientMode.FULL, existing="take_over")
    assert live.retrieve_message(queue_id, timeout=0).body == b"2"
    assert live.session == session
    connected("alice", mode=ClientMode.READ_ONLY, existing="take_over")
    with pytest.raises(SessionFencedError):
        live.retrieve_message(queue_id, timeout=0)


@pytest.mark.parametrize(
    "first_call",
    [
        lambda client: client.create_queue("orders"),
        lambda client: list(client.get_active_queues()),
        lambda client: client.queue(ORDERS).put_many([b"x"]),
        lambda client: expired(client.queue(ORDERS)),
        lambda client: client.topic("prices").subscribe(),
    ],
)
def test_the_first_call_connects(
    open_client: Open, service_url: str, connected: Connect, first_call: Any
) -> None:
    connected().create_queue(ORDERS)
    client = open_client(service_url, name="alice")
    assert (client.name, client.connected) == (None, False)
    first_call(client)
    assert (client.name, client.connected) == ("alice", True)


def test_connecting_twice_changes_nothing(connected: Connect) -> None:
    client = connected("alice", mode=ClientMode.FULL)
    session = client.session
    record = client.connect()
    assert record == ClientRecord(client.client_id, "alice", ClientMode.FULL, temporary=False)
    assert client.session == session


def test_a_first_call_says_why_it_cannot_connect(open_client: Open, connected: Connect) -> None:
    nowhere = open_client("telesto://127.0.0.1:1", ClientOptions(connect_tries=1), name="alice")
    for _ in range(2):
        with pytest.raises(NotConnectedError, match=r"127\.0\.0\.1:1"):
            nowhere.create_queue("orders")


def test_a_first_call_says_why_the_client_is_refused(
    open_client: Open, service_url: str, connected: Connect
) -> None:
    connected("alice")
    client = open_client(service_url, name="alice", existing="error")
    with pytest.raises(ClientNameNotUniqueError, match="exists already"):
        client.create_queue("orders")
    with pytest.raises(NotConnectedError, match="exists already"):
        client.create_queue("orders")


def test_names_may_have_placeholders(
    open_client: Open, service_url: str, request: pytest.FixtureRequest
) -> None:
    host = re.escape(socket.gethostname())
    assert re.fullmatch(f"shop-{host}", open_client(service_url, name="shop-{host}").connect().name)
    client = open_client(service_url, name="shop-{host}-{pid}-{random}")
    if "durable" in request.node.name:
        with pytest.raises(InvalidParameterError, match="needs a name, without"):
            client.connect()
        return
    assert re.fullmatch(rf"shop-{host}-{os.getpid()}-[0-9a-f]{{8}}", client.connect().name)


def test_a_client_without_a_name_is_temporary(
    open_client: Open, service_url: str, connected: Connect, request: pytest.FixtureRequest
) -> None:
    if "durable" in request.node.name:
        with pytest.raises(InvalidParameterError, match="needs a name"):
            open_client(service_url).connect()
        return
    other = connected()
    other.create_queue(ORDERS)
    other.queue(ORDERS).put(b"x")
    with open_client(service_url, options=ClientOptions(auto_confirm=False)) as client:
        assert client.queue(ORDERS).get(timeout=0).body == b"x"
        record = client.connect()
        assert record.temporary
    assert other.queue(ORDERS).get(timeout=0).redelivered
    with pytest.raises(ClientNotExistingError):
        open_client(service_url, client_id=record.client_id).connect()


def test_a_closed_client_refuses_calls(client: Any) -> None:
    client.close()
    client.close()
    with pytest.raises(ClientClosedError):
        client.get_queues()
    with pytest.raises(ClientClosedError):
        client.connect()


def test_the_later_of_two_processes_wins(connected: Connect) -> None:
    first = connected("alice", existing="take_over")
    queue_id = first.create_queue("orders").queue_id
    second = connected("alice", existing="take_over")
    with pytest.raises(SessionFencedError, match="another process"):
        first.put_message(queue_id, b"")
    with pytest.raises(SessionFencedError, match="another process"):
        first.put_message(queue_id, b"")
    assert second.put_message(queue_id, b"") > 0
    first.connect()
    assert first.put_message(queue_id, b"") > 0


def test_a_client_may_go_on_as_a_temporary_one_when_another_process_has_its_name(
    open_client: Open, service_url: str, connected: Connect, request: pytest.FixtureRequest
) -> None:
    options = ClientOptions(temporary_when_fenced=True)
    if "durable" in request.node.name:
        with pytest.raises(InvalidParameterError, match="temporary"):
            open_client(service_url, options=options, name="alice")
        return
    with open_client(service_url, options=options, name="alice") as first:
        queue_id = first.create_queue("orders").queue_id
        second = connected("alice", existing="take_over")
        with pytest.raises(SessionFencedError, match="another process"):
            first.put_message(queue_id, b"not put")
        assert first.put_message(queue_id, b"x") > 0
        assert first.connect().temporary
        assert first.name != "alice"
    assert second.queue(queue_id).get(timeout=0).body == b"x"


@pytest.mark.parametrize("name", ["alice", "worker-{random}"])
def test_a_client_is_taken_back_under_its_name(
    open_client: Open, service_url: str, connected: Connect, name: str, request: pytest.FixtureRequest
) -> None:
    first = open_client(service_url, name=name, existing="error")
    if "durable" in request.node.name and "{random}" in name:
        with pytest.raises(InvalidParameterError, match="needs a name, without"):
            first.connect()
        return
    before = first.connect()
    queue_id = first.create_queue("orders").queue_id
    second = connected(before.name, existing="take_over")
    with pytest.raises(SessionFencedError):
        first.put_message(queue_id, b"x")
    second.close()
    assert first.connect() == before
    assert first.put_message(queue_id, b"x") > 0


def test_delete_client(connected: Connect) -> None:
    client = connected("alice")
    client.delete_client()
    with pytest.raises(NotConnectedError, match="deleted"):
        client.get_queues()
    client.connect()
    assert client.get_queues() == []


def test_read_only_clients_read_and_do_nothing_else(connected: Connect, client: Any, queue_id: int) -> None:
    client.put_message(queue_id, b"x")
    reader = connected(mode=ClientMode.READ_ONLY)
    with pytest.raises(ClientModePermissionError):
        reader.put_message(queue_id, b"y")
    with pytest.raises(ClientModePermissionError):
        reader.create_queue("mine")
    assert reader.get_queue_by_id(queue_id).name == "orders"
    assert [message.body for message in reader.read_messages(queue_id)] == [b"x"]
    assert reader.retrieve_message(queue_id, timeout=0).body == b"x"


# ---------------------------------------------------------------------------------- queues
def test_queues_are_created_found_listed_and_deleted(client: Any) -> None:
    orders = client.create_queue("orders")
    invoices = client.create_queue("invoices")
    assert client.get_queue_by_name("orders") == orders
    assert client.get_queue_by_id(invoices.queue_id) == invoices
    assert client.get_queues() == [orders, invoices]
    client.delete_queue(orders.queue_id)
    assert client.get_queues() == [invoices]
    with pytest.raises(QueueNotExistingError):
        client.get_queue_by_name("orders")
    with pytest.raises(QueueNotExistingError):
        client.get_queue_by_id(orders.queue_id)
    with pytest.raises(QueueNotExistingError):
        client.delete_queue(orders.queue_id)


def test_a_queue_name_is_unique(client: Any, queue_id: int) -> None:
    with pytest.raises(QueueNameNotUniqueError):
        client.create_queue("orders")


def test_listings_go_over_pages(connected: Connect) -> None:
    client = connected(options=ClientOptions(page_size=2))
    made = [client.create_queue(f"q{number}") for number in range(5)]
    assert client.get_queues() == made
    for queue in made[:4]:
        client.put_message(queue.queue_id, b"x")
    assert client.get_active_queues() == made[:4]
    ids = client.queue(made[0].queue_id).put_many([str(number).encode() for number in range(5)])
    browsed = list(client.read_messages(made[0].queue_id))
    assert [message.body for message in browsed] == [b"x", b"0", b"1", b"2", b"3", b"4"]
    assert [message.message_id for message in browsed[1:]] == [result.message_id for result in ids]
    for limit in (1, 2, 5, 6, 100):
        assert list(made[0].browse(limit=limit)) == browsed[:limit]
    with pytest.raises(InvalidParameterError, match="limit must be 1 to"):
        list(made[0].browse(limit=0))


@pytest.mark.parametrize("mode", [ClientMode.FULL, ClientMode.READ_ONLY], ids=["full", "reader"])
def test_queues_are_listed_by_name_with_what_waits(client: Any, connected: Connect, mode: ClientMode) -> None:
    for name in ("order_1", "order%1", "orders", "(a+)+", "line"):
        client.create_queue(name)
    client.queue("orders").put_many([b"1", b"2", b"3"])
    client.queue("orders").get()
    asker = connected(options=ClientOptions(page_size=2), mode=mode)
    assert [(row.name, row.depth) for row in asker.queues()] == [
        ("order_1", 0),
        ("order%1", 0),
        ("orders", 2),
        ("(a+)+", 0),
        ("line", 0),
    ]
    assert [row.queue_id for row in asker.queues("orders")] == [client.get_queue_by_name("orders").queue_id]

    def names(*args: Any, **options: Any) -> list[str]:
        return [row.name for row in asker.queues(*args, **options)]

    assert names("order*") == ["order_1", "order%1", "orders"]
    assert names("order?1") == ["order_1", "order%1"]
    assert names("order_1") == ["order_1"]
    assert names("order%1") == ["order%1"]
    assert names("(a+)+") == ["(a+)+"]
    assert names("ORDERS") == names("order") == names("") == names("*\\") == []
    assert names(limit=3) == ["order_1", "order%1", "orders"]
    assert names("*e*", limit=1) == ["order_1"]
    assert len(names(limit=2**32 - 1)) == 5


def test_clients_are_listed_with_what_they_hold(connected: Connect) -> None:
    holder, reader = connected("holder", options=BY_HAND), connected("reader", mode=ClientMode.READ_ONLY)
    queue = holder.create_queue("held")
    queue.put_many([b"1", b"2"])
    assert len(queue.get_many(2)) == 2
    holder.topic("news").subscribe()
    for asker in (holder, reader):
        rows = {row.name: row for row in asker.clients()}
        assert set(rows) == {"holder", "reader"}
        assert (rows["holder"].client_id, rows["reader"].client_id) == (holder.client_id, reader.client_id)
        assert (rows["holder"].mode, rows["reader"].mode) == (ClientMode.FULL, ClientMode.READ_ONLY)
        assert (rows["holder"].unconfirmed, rows["holder"].subscriptions) == (2, 1)
        assert (rows["reader"].unconfirmed, rows["reader"].subscriptions) == (0, 0)
        assert not rows["holder"].temporary
        assert rows["holder"].session_at.tzinfo is UTC
        assert rows["holder"].address == "127.0.0.1"
        assert [row.name for row in asker.clients("*der", limit=2)] == ["holder", "reader"]
        assert [row.name for row in asker.clients(limit=1)] == ["holder"]
        assert asker.clients("nobody") == []


def test_consumers_and_middlewares_are_listed(connected: Connect, client: Any, queue_id: int) -> None:
    reader = connected(mode=ClientMode.READ_ONLY)
    assert reader.consumers() == reader.consumers("orders") == reader.consumers(queue_id) == []
    with pytest.raises(QueueNotExistingError):
        reader.consumers("no such queue")
    (middleware,) = reader.middlewares()
    assert middleware.consumers == 0
    assert middleware.heartbeat_at >= middleware.started_at


def test_active_queues_are_those_with_something_for_this_client(
    client: Any, connected: Connect, queue_id: int
) -> None:
    assert client.get_active_queues() == []
    other = connected()
    client.put_message(queue_id, b"x", receiver_id=other.client_id)
    assert client.get_active_queues() == []
    assert [queue.queue_id for queue in other.get_active_queues()] == [queue_id]


def test_a_bounded_queue_refuses_what_is_too_much(client: Any) -> None:
    queue = client.create_queue("small", max_messages=1)
    client.put_message(queue.queue_id, b"1")
    with pytest.raises(QueueFullError) as raised:
        client.put_message(queue.queue_id, b"2")
    assert raised.value.queue_id == queue.queue_id
    assert client.queue(queue.queue_id).statistics().max_messages == 1


def test_a_full_queue_takes_puts_again_once_it_has_space(client: Any) -> None:
    queue_id = client.create_queue("small", max_messages=1).queue_id
    for turn in range(3):
        client.put_message(queue_id, b"%d" % turn, dedup_key=f"k{turn}")
        for _ in range(2):
            with pytest.raises(QueueFullError):
                client.put_message(queue_id, b"too much")
        assert client.put_message(queue_id, b"repeated", dedup_key=f"k{turn}") > 0
        assert client.retrieve_message(queue_id, timeout=0).body == b"%d" % turn


def test_a_full_queue_takes_puts_again_although_many_are_under_way(client: Any) -> None:
    """Each caller puts until its message is stored, and one reads; nobody is refused for ever."""
    queue_id = client.create_queue("small", max_messages=1).queue_id

    def persist(number: int) -> None:
        while True:
            try:
                client.put_message(queue_id, b"%d" % number)
            except QueueFullError:
                continue
            return

    waits = [in_background(lambda number=number: persist(number)) for number in range(8)]
    bodies = {client.retrieve_message(queue_id, timeout=60).body for _ in waits}
    assert bodies == {b"%d" % number for number in range(8)}
    for wait in waits:
        wait()


def test_settings_are_shown_and_changed(client: Any) -> None:
    queue_id = client.create_queue("small", max_messages=3).queue_id
    assert client.queue(queue_id).settings().max_messages == 3
    client.queue(queue_id).put_many([b"1", b"2"])
    client.queue(queue_id).update(max_messages=1)
    with pytest.raises(QueueFullError):
        client.put_message(queue_id, b"3")
    client.queue(queue_id).update(max_messages=None)
    assert client.queue(queue_id).settings().max_messages is None
    client.put_message(queue_id, b"3")
    assert [message.text for message in client.read_messages(queue_id)] == ["1", "2", "3"]


def test_under_one_key_a_queue_stores_one_message(client: Any, queue_id: int) -> None:
    first = client.put_message(queue_id, b"first", dedup_key="order 7")
    assert client.put_message(queue_id, b"again", dedup_key="order 7") == first
    (result,) = client.put_messages([queue_id], b"again", dedup_key="order 7")
    assert (result.message_id, result.duplicate, result.error) == (first, True, None)
    new, old, other = client.queue(queue_id).put_many(
        [NewMessage(b"new", dedup_key="new"), NewMessage(b"old", dedup_key="new"), NewMessage(b"without")],
    )
    assert (new.duplicate, old.duplicate, other.duplicate) == (False, True, False)
    assert new.message_id == old.message_id != other.message_id
    bodies = [message.text for message in client.queue(queue_id).get_many(max_messages=9, timeout=0)]
    assert bodies == ["first", "new", "without"]
    # Also when the first one is long gone.
    assert client.put_message(queue_id, b"again", dedup_key="order 7") == first
    assert client.retrieve_message(queue_id, timeout=0) is None


def test_a_key_belongs_to_its_queue_and_takes_no_space(client: Any, queue_id: int) -> None:
    small = client.create_queue("small", max_messages=1, dedup_window=60).queue_id
    assert client.queue(small).settings().dedup_window == 60.0
    both = client.put_messages([queue_id, small], b"x", dedup_key="k")
    assert [result.duplicate for result in both] == [False, False]
    again = client.put_messages([queue_id, small], b"x", dedup_key="k")
    assert [(result.duplicate, result.error) for result in again] == [(True, None)] * 2
    with pytest.raises(QueueFullError):
        client.put_message(small, b"y", dedup_key="other")
    client.queue(small).update(lease=1, max_attempts=2)
    settings = client.queue(small).settings()
    assert (settings.lease, settings.max_attempts) == (1.0, 2)
    soon = timedelta(milliseconds=7)
    client.queue(small).update(backoff=0, backoff_max=soon, expires=0.009, bury_expired=True)
    settings = client.queue(small).settings()
    assert (settings.backoff, settings.backoff_max) == (0.0, 0.007)
    assert (settings.expires, settings.bury_expired) == (0.009, True)
    client.queue(small).update(expires=None)
    assert client.queue(small).settings().expires is None
    client.queue(small).update(dedup_window=1)
    assert client.queue(small).settings().dedup_window == 1.0
    client.queue(small).update(QueueSettings(lease=5, backoff=3), backoff=2)
    assert client.queue(small).settings() == QueueSettings(lease=5, backoff=2)
    with pytest.raises(TypeError, match="settings must be QueueSettings, not dict"):
        client.queue(small).update({"lease": 5})
    with pytest.raises(TypeError, match=r"must be one of HistoryMode.NONE, .*FULL, not 'FULL'"):
        client.queue(small).update(history="FULL")


def test_what_a_queue_keeps_of_what_is_over_is_a_setting(client: Any) -> None:
    usual = client.create_queue("usual").queue_id
    settings = client.queue(usual).settings()
    assert (settings.history, settings.history_days) == (HistoryMode.METADATA, 7)
    audit = client.create_queue("audit", history=HistoryMode.FULL, history_days=366).queue_id
    settings = client.queue(audit).settings()
    assert (settings.history, settings.history_days) == (HistoryMode.FULL, 366)
    client.queue(audit).update(history=HistoryMode.NONE)
    settings = client.queue(audit).settings()
    assert (settings.history, settings.history_days) == (HistoryMode.NONE, 366)
    for wrong in ({"history_days": 0}, {"history_days": 367}):
        with pytest.raises(InvalidParameterError):
            client.queue(audit).update(**wrong)
    with pytest.raises(TypeError):
        client.queue(audit).update(history="full")


@pytest.mark.parametrize("key", ["", "k" * 256, "a\0b"])
def test_keys_that_are_none_are_refused(client: Any, queue_id: int, key: str) -> None:
    with pytest.raises(InvalidParameterError, match="dedup_key"):
        client.put_message(queue_id, b"", dedup_key=key)
    with pytest.raises(TypeError):
        client.put_message(queue_id, b"", dedup_key=b"bytes")


def test_settings_that_cannot_be_are_refused(client: Any, queue_id: int) -> None:
    for wrong in (
        {},
        {"max_messages": 0},
        {"max_messages": -1},
        {"max_messages": 2**63},
        {"lease": 0.099},
        {"max_attempts": 0},
        {"backoff": -1},
        {"backoff_max": timedelta(days=1, milliseconds=1)},
        {"expires": 0},
        {"dedup_window": 0},
        {"dedup_window": 8 * 24 * 3600},
    ):
        with pytest.raises(InvalidParameterError):
            client.queue(queue_id).update(**wrong)
    with pytest.raises(TypeError):
        client.queue(queue_id).update(max_messages="many")
    unknown = client.queue(queue_id + 1000)
    for call in (unknown.settings, lambda: unknown.update(max_messages=1)):
        with pytest.raises(QueueNotExistingError) as raised:
            call()
        assert raised.value.related_id == queue_id + 1000
    assert client.queue(queue_id).settings().max_messages is None


def test_a_reader_sees_settings_and_changes_none(client: Any, connected: Connect, queue_id: int) -> None:
    reader = connected(mode=ClientMode.READ_ONLY)
    assert reader.queue(queue_id).settings() == client.queue(queue_id).settings()
    with pytest.raises(ClientModePermissionError):
        reader.queue(queue_id).update(max_messages=1)


def test_a_message_that_nobody_has_is_cancelled(client: Any, queue_id: int) -> None:
    queue = client.queue(queue_id)
    first, second = queue.put(b"1"), queue.put(b"2")
    assert queue.cancel(second) is True
    assert queue.cancel(second) is False
    assert queue.get(timeout=0).message_id == first
    assert queue.cancel(first) is False
    with pytest.raises(InvalidParameterError, match="message_id"):
        queue.cancel(0)
    queue.delete()
    with pytest.raises(QueueNotExistingError):
        queue.cancel(first)


def test_purge_and_statistics(client: Any, queue_id: int) -> None:
    client.put_message(queue_id, b"1")
    client.put_message(queue_id, b"2", receiver_id=client.client_id)
    client.put_message(queue_id, b"3", receiver_id=client.client_id + 1000)
    client.retrieve_message(queue_id, timeout=0)
    statistics = client.queue(queue_id).statistics()
    assert (statistics.depth, statistics.put_total, statistics.taken_total) == (2, 3, 1)
    assert statistics.max_messages is None
    assert (statistics.ready, statistics.delayed, statistics.backing_off, statistics.keyed) == (2, 0, 0, 0)
    assert (statistics.leased, statistics.dead, statistics.exact) == (0, 0, True)
    assert client.queue(queue_id).purge() == 2
    statistics = client.queue(queue_id).statistics()
    assert (statistics.depth, statistics.ready, statistics.oldest_age) == (0, 0, None)
    assert client.queue(queue_id).purge() == 0
    with pytest.raises(QueueNotExistingError):
        client.queue(queue_id + 1000).statistics()


# ---------------------------------------------------------------------------------- putting
def test_a_message_keeps_all_it_was_given(client: Any, queue_id: int) -> None:
    message_id = client.put_message(
        queue_id, "grüß".encode(), priority=7, receiver_id=client.client_id, correlation_id=-5
    )
    message = client.retrieve_message(queue_id, timeout=0)
    assert message.message_id == message_id
    assert message.queue_id == queue_id
    assert message.sender_id == message.receiver_id == client.client_id
    assert (message.priority, message.correlation_id, message.attempt) == (7, -5, 1)
    assert message.text == "grüß"
    assert not message.redelivered
    assert isinstance(message.time_of_arrival, datetime)
    assert message.time_of_arrival.tzinfo is UTC


def test_an_empty_body_is_a_body(client: Any, queue_id: int) -> None:
    client.put_message(queue_id, b"")
    assert client.retrieve_message(queue_id, timeout=0).body == b""


def test_putting_into_no_queue_is_an_error(client: Any, queue_id: int) -> None:
    with pytest.raises(QueueNotExistingError):
        client.put_message(queue_id + 1000, b"x")


def test_one_message_into_several_queues(client: Any, queue_id: int) -> None:
    other = client.create_queue("other").queue_id
    missing = other + 1000
    results = client.put_messages([queue_id, missing, other], b"x")
    assert [result.queue_id for result in results] == [queue_id, missing, other]
    assert isinstance(results[1].error, QueueNotExistingError)
    assert results[1].message_id is None
    assert client.retrieve_message(queue_id, timeout=0).message_id == results[0].message_id
    assert client.retrieve_message(other, timeout=0).message_id == results[2].message_id
    with pytest.raises(QueueNotExistingError):
        client.put_messages([missing, missing + 1], b"x")


def test_put_many_keeps_order_over_batches(connected: Connect) -> None:
    small = ClientOptions(put_batch_messages=7, put_batch_bytes=50, put_batches_in_flight=3)
    client = connected(options=small)
    queue_id = client.create_queue("orders").queue_id
    bodies = [b"%d" % number * (number % 9 + 1) for number in range(100)]
    results = client.queue(queue_id).put_many(NewMessage(body) for body in bodies)
    assert [result.error for result in results] == [None] * 100
    messages = client.queue(queue_id).get_many(max_messages=200, mode=ReadMode.TIME, timeout=0)
    assert [message.body for message in messages] == bodies
    assert [message.message_id for message in messages] == [result.message_id for result in results]


def test_put_many_reports_each_message(client: Any) -> None:
    queue_id = client.create_queue("small", max_messages=2).queue_id
    results = client.queue(queue_id).put_many([b"1", NewMessage(b"2", priority=9), b"3"])
    assert [result.message_id is None for result in results] == [False, False, True]
    assert isinstance(results[2].error, QueueFullError)
    results = client.queue(queue_id).put_many([b"4", b"5"])
    assert [(result.queue_id, type(result.error)) for result in results] == [(queue_id, QueueFullError)] * 2
    assert client.queue(queue_id).put_many([]) == []


def test_put_many_tells_what_came_before_the_client_was_closed(
    connected: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions: list[Session] = []
    link_up = Session.link_up

    def note(session: Session, *place: Any) -> Any:
        sessions.append(session)
        return link_up(session, *place)

    monkeypatch.setattr(Session, "link_up", note)
    client = connected(options=ClientOptions(put_batch_messages=1, put_batches_in_flight=1))
    queue_id = client.create_queue("orders").queue_id

    def bodies() -> Iterator[bytes]:
        yield from (b"1", b"2")  # the second leaves when the third is known
        sessions[-1].begin_close()
        yield from (b"3", b"4")

    results = client.queue(queue_id).put_many(bodies())
    assert [result.message_id is not None for result in results] == [True, False, False, False]
    assert all(isinstance(result.error, ClientClosedError) for result in results[1:])
    with pytest.raises(ClientClosedError):
        client.queue(queue_id).put_many([b"5"])


def test_a_frame_that_is_too_large_is_refused_at_once(connected: Connect) -> None:
    client = connected(options=ClientOptions(max_frame=65_536))
    queue_id = client.create_queue("orders").queue_id
    with pytest.raises(MessageTooLargeError):
        client.put_message(queue_id, bytes(65_536))
    assert client.put_message(queue_id, bytes(60_000)) > 0


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        ({"body": None}, TypeError, "body must be bytes"),
        ({"body": (1, 2)}, TypeError, "not tuple"),
        ({"priority": 0}, InvalidParameterError, "priority"),
        ({"priority": 11}, InvalidParameterError, "priority"),
        ({"priority": "5"}, TypeError, "priority"),
        ({"receiver_id": -1}, InvalidParameterError, "receiver_id"),
        ({"correlation_id": "c"}, TypeError, "correlation_id"),
        ({"queue": None}, TypeError, "queue must be a queue, its name or its id, not NoneType"),
        ({"queue": ""}, InvalidParameterError, "queue must have 1 to 255 characters"),
        ({"queue": 0}, InvalidParameterError, "queue must be an id above 0"),
        ({"correlation_id": 2**63}, InvalidParameterError, "correlation_id"),
    ],
)
def test_bad_arguments_are_told(
    client: Any, queue_id: int, arguments: dict[str, Any], error: type[Exception], hint: str
) -> None:
    with pytest.raises(error, match=hint.replace("(", r"\(").replace(")", r"\)")):
        client.put_message(**{"queue": queue_id, "body": b"x"} | arguments)
    assert client.put_message(queue_id, b"fine") > 0


# ---------------------------------------------------------------------------------- reading
def test_priority_comes_first_or_age_does(client: Any, queue_id: int) -> None:
    for body, priority in ((b"old", 1), (b"mid", 5), (b"high", 9), (b"high2", 9)):
        client.put_message(queue_id, body, priority=priority)
    assert client.retrieve_message(queue_id, timeout=0).body == b"high"
    assert client.retrieve_message(queue_id, mode=ReadMode.TIME, timeout=0).body == b"old"
    messages = client.queue(queue_id).get_many(max_messages=5, timeout=0)
    assert [message.body for message in messages] == [b"high2", b"mid"]


def test_reading_an_empty_queue(client: Any, queue_id: int) -> None:
    assert client.retrieve_message(queue_id, timeout=0) is None
    assert client.queue(queue_id).get_many(max_messages=3, timeout=0) == []
    before = time.monotonic()
    assert client.retrieve_message(queue_id, timeout=0.2) is None
    assert time.monotonic() - before >= 0.2


def test_a_read_waits_for_a_message(client: Any, connected: Connect, queue_id: int) -> None:
    wait = in_background(lambda: client.retrieve_message(queue_id, timeout=None))
    connected().put_message(queue_id, b"late")
    assert wait().body == b"late"


def test_only_messages_of_one_sender(client: Any, connected: Connect, queue_id: int) -> None:
    other = connected()
    client.put_message(queue_id, b"mine", priority=9)
    other.put_message(queue_id, b"its")
    assert client.retrieve_message(queue_id, sender_id=other.client_id, timeout=0).body == b"its"
    assert client.retrieve_message(queue_id, sender_id=other.client_id, timeout=0) is None
    assert client.retrieve_message(queue_id, sender_id=client.client_id, timeout=0).body == b"mine"


def test_messages_for_another_client_are_not_read(client: Any, connected: Connect, queue_id: int) -> None:
    other = connected()
    client.put_message(queue_id, b"its", receiver_id=other.client_id)
    assert client.retrieve_message(queue_id, timeout=0) is None
    assert list(client.read_messages(queue_id)) == []
    assert other.retrieve_message(queue_id, timeout=0).body == b"its"


def test_reads_are_bounded_in_bytes(client: Any, queue_id: int) -> None:
    client.queue(queue_id).put_many([bytes(100)] * 3)
    assert len(client.queue(queue_id).get_many(max_messages=3, max_bytes=250, timeout=0)) == 2
    with pytest.raises(MessageTooLargeError):
        client.queue(queue_id).get_many(max_messages=3, max_bytes=50, timeout=0)
    assert len(client.queue(queue_id).get_many(max_messages=3, timeout=0)) == 1


def test_reading_a_missing_queue(client: Any, queue_id: int) -> None:
    with pytest.raises(QueueNotExistingError):
        client.retrieve_message(queue_id + 1000, timeout=0)


def test_a_waiting_read_hears_that_its_queue_is_deleted(
    client: Any, connected: Connect, queue_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = connected()
    sent = noted(monkeypatch, Link, "send")
    wait = in_background(lambda: client.retrieve_message(queue_id, timeout=60))
    wait_until(lambda: sent)
    other.delete_queue(queue_id)
    assert isinstance(wait(), QueueNotExistingError)


def test_browsing_takes_nothing(client: Any, queue_id: int) -> None:
    client.put_message(queue_id, b"x", priority=3)
    for _ in range(2):
        [message] = client.read_messages(queue_id)
        assert (message.body, message.priority, message.attempt) == (b"x", 3, 0)
    with pytest.raises(InvalidParameterError, match="browsed"):
        client.release([message])


def test_what_was_not_confirmed_comes_again(connected: Connect) -> None:
    client = connected("alice", options=BY_HAND)
    queue_id = client.create_queue("orders").queue_id
    client.queue(queue_id).put_many([b"1", b"2", b"3"])
    messages = client.queue(queue_id).get_many(max_messages=3, timeout=0)
    client.confirm(messages[:1])
    again = connected("alice", existing="take_over")
    taken = [(m.body, m.redelivered) for m in again.queue(queue_id).get_many(max_messages=3, timeout=0)]
    assert taken[-2:] == [(b"2", True), (b"3", True)]
    assert taken[:-2] in ([], [(b"1", True)])  # the confirmation travels a little later than the call


def test_a_confirmed_message_does_not_come_again(connected: Connect) -> None:
    client = connected("alice", options=BY_HAND)
    queue_id = client.create_queue("orders").queue_id
    client.queue(queue_id).put_many([b"1", b"2"])
    first, second = client.queue(queue_id).get_many(max_messages=2, timeout=0)
    client.confirm([first])
    client.close()
    again = connected("alice")
    message = again.retrieve_message(queue_id, timeout=0)
    assert (message.body, message.redelivered) == (second.body, True)
    assert again.retrieve_message(queue_id, timeout=0) is None


def test_released_messages_return_to_their_place(connected: Connect) -> None:
    client = connected(options=BY_HAND)
    queue_id = client.create_queue("orders").queue_id
    client.queue(queue_id).put_many([b"1", b"2", b"3"])
    messages = client.queue(queue_id).get_many(max_messages=2, timeout=0)
    assert client.release(messages) == 2
    assert client.release(messages) == 0
    again = connected().queue(queue_id).get_many(max_messages=3, timeout=0)
    assert [(m.body, m.redelivered) for m in again] == [(b"1", True), (b"2", True), (b"3", False)]


def test_a_message_just_read_can_be_released(client: Any, queue_id: int) -> None:
    client.queue(queue_id).put_many([b"1", b"2"])
    messages = client.queue(queue_id).get_many(max_messages=2, timeout=0)
    assert client.release(messages[1:]) in (0, 1)  # confirmed meanwhile, or given back


def test_closing_gives_back_what_was_not_confirmed(connected: Connect) -> None:
    client = connected(options=BY_HAND)
    queue_id = client.create_queue("orders").queue_id
    client.put_message(queue_id, b"1")
    client.retrieve_message(queue_id, timeout=0)
    client.close()
    message = connected().retrieve_message(queue_id, timeout=60)
    assert (message.body, message.redelivered) == (b"1", True)


# ---------------------------------------------------------------------------------- request and response
def test_request_and_response(client: Any, connected: Connect, queue_id: int) -> None:
    server = connected()

    def serve_one() -> None:
        request = server.retrieve_message(queue_id, timeout=60)
        assert request.priority == 8
        server.reply(request, request.body.upper())

    wait = in_background(serve_one)
    response = client.send_request_response_message(queue_id, b"hello", priority=8, timeout=60)
    assert (response.body, response.priority, response.receiver_id) == (b"HELLO", 8, client.client_id)
    assert wait() is None


def test_a_request_without_response(client: Any, queue_id: int) -> None:
    other = client.client_id + 1000
    for _ in range(2):
        with pytest.raises(RequestTimeoutError, match="no response came in time") as raised:
            client.send_request_response_message(queue_id, b"x", receiver_id=other, timeout=0.05)
        assert isinstance(raised.value, TimeoutError)
        assert raised.value.queue_id == queue_id


def test_a_request_into_no_queue(client: Any, queue_id: int) -> None:
    with pytest.raises(QueueNotExistingError):
        client.send_request_response_message(queue_id + 1000, b"x", timeout=60)
    assert client.put_message(queue_id, b"x") > 0


def test_only_a_request_can_be_replied_to(client: Any, queue_id: int) -> None:
    client.put_message(queue_id, b"x")
    message = client.retrieve_message(queue_id, timeout=0)
    with pytest.raises(InvalidParameterError, match="correlation id"):
        client.reply(message, b"y")


# ---------------------------------------------------------------------------------- fast delivery
def test_fast_delivery(connected: Connect) -> None:
    client = connected(delivery="fast")
    queue_id = client.create_queue("orders").queue_id
    for number in range(50):
        client.put_message(queue_id, b"%d" % number)
    taken = [client.retrieve_message(queue_id, timeout=0).body for _ in range(50)]
    assert taken == [b"%d" % number for number in range(50)]
    assert client.retrieve_message(queue_id, timeout=0) is None


def test_many_more_calls_than_may_be_unconfirmed(client: Any, queue_id: int) -> None:
    for number in range(2500):
        client.put_message(queue_id, b"%d" % number)
    taken = 0
    while messages := client.queue(queue_id).get_many(max_messages=100, timeout=0):
        taken += len(messages)
    assert taken == 2500
