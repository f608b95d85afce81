"""What ``repr`` shows of clients, handles, consumers and values."""

from typing import Any

import pytest

from fake_server import FakeServer
from shells import Open
from telesto.client import (
    ClientOptions,
    DeadLetter,
    Message,
    NewMessage,
    NotConnectedError,
    PutResult,
    SessionFencedError,
    TelestoClient,
    TopicMessage,
)
from telesto.client.bookkeeping.identity import Identity


def text(shell: Any) -> str:
    """What the client behind a shell of the tests shows, without its kind."""
    said = repr(getattr(shell, "client", shell))
    return said.replace("AsyncTelestoClient", "TelestoClient")


def test_a_client(open_client: Open, fake_server: FakeServer) -> None:
    address = f"127.0.0.1:{fake_server.port}"
    client = open_client(fake_server.url, name="shop-a-12")
    assert text(client) == "<TelestoClient not connected>"
    client.connect()
    assert text(client) == f"<TelestoClient 'shop-a-12' connected to {address}>"
    second = open_client(fake_server.url, name="shop-a-12", existing="take_over")
    second.connect()
    with pytest.raises(SessionFencedError):
        client.get_queues()
    assert text(client) == "<TelestoClient 'shop-a-12' fenced by another process>"
    second.close()
    assert text(second) == "<TelestoClient 'shop-a-12' closed>"


def test_a_client_that_could_not_connect(open_client: Open, dead_port: int) -> None:
    client = open_client(f"telesto://127.0.0.1:{dead_port}", ClientOptions(connect_tries=1), name="alice")
    with pytest.raises(NotConnectedError):
        client.connect()
    assert text(client) == "<TelestoClient not connected>"


def test_handles(fake_server: FakeServer) -> None:
    queue_id = fake_server.do(lambda: fake_server.service.add_queue("orders"))
    with TelestoClient(fake_server.url, name="alice") as client:
        client.connect()
        assert repr(client.queue("orders")) == "<Queue 'orders'>"
        assert repr(client.queue(queue_id)) == f"<Queue {queue_id}>"
        assert repr(client.topic("prices")) == "<Topic 'prices'>"
        assert repr(client.subscribed_topics) == "<SubscribedTopics>"


def test_a_consumer_and_its_messages(real_service_url: str) -> None:
    with TelestoClient(real_service_url, name="alice") as client:
        client.connect()
        queue = client.create_queue("orders")
        queue.put(b"x" * 100)
        with queue.consume() as consumer:
            leased = consumer.get(30)
            assert leased is not None
            assert repr(consumer).startswith("<Consumer of 'orders': 1 in work, ")
            assert (
                repr(leased) == f"<LeasedMessage {leased.message.message_id}: {b'x' * 60!r}... (100 bytes)>"
            )
            leased.ack()
            assert "no longer held" in repr(leased)
            consumer.stop()
            assert repr(consumer).startswith("<Consumer of 'orders', stopped: ")
        assert repr(consumer).startswith("<Consumer of 'orders', closed: ")


def message(body: bytes) -> Message:
    return Message(7, 1, 3, None, None, 5, 1_000_000, 1, False, body)


def test_bodies_are_cut() -> None:
    for shown in (message(b"x" * 61), NewMessage(b"x" * 61), TopicMessage("prices", 1, 2, 3, b"x" * 61)):
        assert f"body={b'x' * 60!r}... (61 bytes)" in repr(shown)
        assert len(repr(shown)) < 300
    assert "body=" + repr(b"x" * 60) + ")" in repr(message(b"x" * 60))
    assert "(1000000 bytes)" in repr(DeadLetter(message(b"x" * 1_000_000), "late", 1, None))


def test_what_is_as_usual_is_left_out() -> None:
    assert repr(NewMessage(b"a")) == "NewMessage(body=b'a')"
    assert repr(NewMessage(b"a", priority=9)) == "NewMessage(body=b'a', priority=9)"
    assert repr(PutResult(1, 2)) == "PutResult(queue_id=1, message_id=2)"
    assert repr(ClientOptions()) == "ClientOptions()"
    assert repr(ClientOptions(call_timeout=5)) == "ClientOptions(call_timeout=5)"


def test_no_secret_is_shown() -> None:
    identity = Identity(None, "alice", None, "use")
    assert identity.token.hex() not in repr(identity)
    assert repr(identity.token) not in repr(identity)
