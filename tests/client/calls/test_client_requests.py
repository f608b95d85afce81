"""Serving requests with both clients: answers, failures, and a crash between answer and acknowledgement."""

import inspect
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from faults.waiting import wait_until
from telesto.client import (
    AsyncQueue,
    AsyncTelestoClient,
    ClientOptions,
    ErrorClass,
    Queue,
    QueueNotExistingError,
    RemoteError,
    RemoteRefusalError,
    RequestRefusedError,
    RequestTimeoutError,
    TelestoClient,
)
from telesto.client.io import shared
from telesto.client.session.session import Session

Connect = Callable[..., Any]
PATIENCE_S = 60


@pytest.fixture
def service_url(real_service_url: str) -> str:
    """Consumers need the real service."""
    return real_service_url


@pytest.fixture
def queue_id(client: Any) -> int:
    queue: Queue = client.create_queue("requests", backoff=0)
    return queue.queue_id


class Server:
    """A client that serves requests in a thread, until it is stopped."""

    def __init__(self, client: Any, queue_id: int, handler: Callable[[Any], Any], **options: Any) -> None:
        self.client = client
        self._executor = ThreadPoolExecutor(1)
        self._serving = self._executor.submit(client.queue(queue_id).serve_requests, handler, **options)

    def stop(self) -> None:
        self.client.close()
        assert self.wait() is None

    def wait(self) -> Any:
        self._executor.shutdown(wait=False)
        return self._serving.exception(PATIENCE_S) or self._serving.result()


def ask(client: Any, queue_id: int, body: bytes) -> bytes:
    response = client.send_request_response_message(queue_id, body, timeout=PATIENCE_S)
    return bytes(response.body)


def until_answered(real_service: Any) -> None:
    """Returns when no consumer has a message."""
    while real_service.query("SELECT 1 FROM telesto.leases"):
        pass


def test_requests_are_answered_until_the_server_is_closed(
    client: Any, connected: Connect, queue_id: int, real_service: Any
) -> None:
    server = Server(connected("server"), queue_id, lambda request: request.body[::-1])
    for body in (b"abc", b"def"):
        assert ask(client, queue_id, body) == body[::-1]
    until_answered(real_service)
    server.stop()
    assert client.queue(queue_id).statistics().depth == 0


def test_a_handler_that_fails_does_not_end_the_server(client: Any, connected: Connect, queue_id: int) -> None:
    failures: list[tuple[bytes, int, str]] = []

    def handle(request: Any) -> bytes:
        if request.body == b"0":
            raise ValueError("no number to divide by")
        return request.body * 2  # type: ignore[no-any-return]

    def failed(request: Any, error: BaseException) -> None:
        failures.append((request.body, request.attempt, str(error)))

    server = Server(connected("server"), queue_id, handle, on_error=failed)
    with pytest.raises(
        RemoteError, match="the handler of the request raised ValueError: no number"
    ) as raised:
        ask(client, queue_id, b"0")
    assert (raised.value.type, raised.value.text) == ("ValueError", "no number to divide by")
    assert ask(client, queue_id, b"x") == b"xx"
    assert failures == [(b"0", 1, "no number to divide by")]
    server.stop()
    assert client.queue(queue_id).statistics().depth == 0


class NoPriceError(RequestRefusedError):
    """Nothing is for sale."""


@pytest.mark.parametrize("kind", [RequestRefusedError, NoPriceError])
def test_a_request_that_is_refused_is_answered_so_and_no_failure(
    client: Any, connected: Connect, queue_id: int, caplog: pytest.LogCaptureFixture, kind: type[Exception]
) -> None:
    caplog.set_level(logging.INFO, "telesto.client")
    failures: list[Any] = []

    def handle(request: Any) -> bytes:
        raise kind("not today")

    server = Server(connected("server"), queue_id, handle, on_error=lambda *what: failures.append(what))
    with pytest.raises(RemoteError) as raised:
        ask(client, queue_id, b"x")
    assert (raised.value.type, raised.value.text) == (kind.__name__, "not today")
    assert isinstance(raised.value, RemoteRefusalError)
    assert raised.value.error_class is ErrorClass.REJECTED
    server.stop()
    assert failures == []
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("INFO", None)
    assert record.getMessage().endswith(f" is refused: {kind.__name__}: not today")
    assert client.queue(queue_id).statistics().depth == 0


def test_a_handler_that_fails_leaves_a_doubt(client: Any, connected: Connect, queue_id: int) -> None:
    def handle(request: Any) -> bytes:
        raise ValueError(request.text)

    server = Server(connected("server"), queue_id, handle, on_error=lambda *_: None)
    with pytest.raises(RemoteError) as raised:
        ask(client, queue_id, b"x")
    assert not isinstance(raised.value, RemoteRefusalError)
    assert raised.value.error_class is ErrorClass.IN_DOUBT
    server.stop()


def test_a_handler_without_a_response_is_told_once(
    client: Any, connected: Connect, queue_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "telesto.client")
    handled: list[bytes] = []
    server = Server(connected("server"), queue_id, lambda request: handled.append(request.body))
    for _ in range(2):
        with pytest.raises(RequestTimeoutError):
            client.queue(queue_id).request(b"x", timeout=0.5)
    wait_until(lambda: len(handled) == 2)
    server.stop()
    (record,) = caplog.records
    assert "returned None for request" in record.getMessage()


@pytest.mark.parametrize("kind", [Queue, AsyncQueue, TelestoClient, AsyncTelestoClient])
def test_an_asker_does_not_wait_for_ever(kind: Any) -> None:
    asking = kind.request if hasattr(kind, "request") else kind.send_request_response_message
    assert inspect.signature(asking).parameters["timeout"].default == 30


def test_a_handler_that_returns_no_body_fails(client: Any, connected: Connect, queue_id: int) -> None:
    server = Server(connected("server"), queue_id, lambda request: object(), on_error=lambda *_: None)
    with pytest.raises(RemoteError, match="TypeError: body must be"):
        ask(client, queue_id, b"x")
    server.stop()


def test_a_response_that_is_refused_is_a_failure(client: Any, connected: Connect, queue_id: int) -> None:
    handled: list[bytes] = []

    def handle(request: Any) -> bytes:
        handled.append(request.body)
        return bytes(20 << 20)

    server = Server(connected("server"), queue_id, handle, on_error=lambda *_: None)
    with pytest.raises(RemoteError, match="TooLargeError"):
        ask(client, queue_id, b"x")
    assert handled == [b"x"]
    server.stop()


def test_a_long_failure_is_cut(client: Any, connected: Connect, queue_id: int) -> None:
    def handle(request: Any) -> bytes:
        raise ValueError("\udcff" + "\u00e4" * 100_000)

    server = Server(connected("server"), queue_id, handle, on_error=lambda *_: None)
    with pytest.raises(RemoteError) as raised:
        ask(client, queue_id, b"x")
    assert raised.value.text == "?" + "\u00e4" * 3_999
    server.stop()


def test_several_requests_are_worked_on_at_a_time(client: Any, connected: Connect, queue_id: int) -> None:
    together = threading.Barrier(2)

    def handle(request: Any) -> bytes:
        together.wait(PATIENCE_S)
        return request.body  # type: ignore[no-any-return]

    server = Server(connected("server"), queue_id, handle, concurrency=2)
    askers = [connected(), connected()]
    with ThreadPoolExecutor(2) as executor:
        answers = list(executor.map(lambda asker: ask(asker, queue_id, b"x"), askers))
    assert answers == [b"x", b"x"]
    server.stop()


def test_servers_share_the_requests(
    client: Any, connected: Connect, queue_id: int, real_service: Any
) -> None:
    together = threading.Barrier(2)
    begun = threading.Event()

    def handle(request: Any) -> bytes:
        begun.set()
        together.wait(PATIENCE_S)
        return request.body  # type: ignore[no-any-return]

    servers = [Server(connected(), queue_id, handle) for _ in range(2)]
    # One that has joined alone would be given both requests.
    real_service.wait_for_consumers(2)
    askers = [connected(), connected()]
    with ThreadPoolExecutor(2) as executor:
        first = executor.submit(ask, askers[0], queue_id, b"x")
        # Requests that come together may be claimed together, by one server.
        assert begun.wait(PATIENCE_S)
        second = executor.submit(ask, askers[1], queue_id, b"x")
        assert [first.result(), second.result()] == [b"x", b"x"]
    for server in servers:
        server.stop()


def test_what_asks_for_no_response_gets_none(
    client: Any, connected: Connect, queue_id: int, real_service: Any
) -> None:
    handled = threading.Semaphore(0)

    def handle(request: Any) -> bytes | None:
        handled.release()
        return None if request.correlation_id else b"to nobody"

    server = Server(connected("server"), queue_id, handle)
    client.put_message(queue_id, b"no context")
    client.put_message(queue_id, b"not answered", correlation_id=5)
    for _ in range(2):
        assert handled.acquire(timeout=PATIENCE_S)
    until_answered(real_service)
    server.stop()
    assert client.queue(queue_id).statistics().depth == 0


def test_a_request_that_comes_again_is_not_answered_again(
    client: Any, connected: Connect, queue_id: int, real_service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is gone after its answer and before its acknowledgement."""
    runs: list[int] = []
    acknowledging = threading.Semaphore(0)

    def handle(request: Any) -> bytes:
        runs.append(request.attempt)
        return b"answer %d" % request.attempt

    worker = connected("server")
    with monkeypatch.context() as patch:
        patch.setattr(Session, "ack_soon", lambda *_: acknowledging.release())
        server = Server(worker, queue_id, handle)
        assert ask(client, queue_id, b"x") == b"answer 1"
        assert acknowledging.acquire(timeout=PATIENCE_S)
        real_service.cut_connections()
        assert acknowledging.acquire(timeout=PATIENCE_S)
    real_service.cut_connections()
    while len(runs) < 3:
        pass
    until_answered(real_service)
    server.stop()
    # An attempt of a lost connection does not count if the sweep finds the old session first.
    assert len(runs) == 3
    assert runs == sorted(runs)
    assert client.retrieve_message(queue_id, timeout=0) is None
    assert client.queue(queue_id).statistics().depth == 0


def test_deleting_the_queue_ends_the_server(client: Any, connected: Connect, queue_id: int) -> None:
    server = Server(connected("server"), queue_id, lambda request: request.body)
    assert ask(client, queue_id, b"x") == b"x"
    client.delete_queue(queue_id)
    assert isinstance(server.wait(), QueueNotExistingError)


# ---------------------------------------------------------------------------------- who asks is gone
def asked_and_given_up(client: Any, server: Any, queue_id: int) -> Any:
    """Returns a request that was handed over in time and whose asker has given up since."""
    with ThreadPoolExecutor(1) as executor:
        asking = executor.submit(client.send_request_response_message, queue_id, b"x", timeout=1.0)
        request = server.retrieve_message(queue_id, timeout=PATIENCE_S)
        assert isinstance(asking.exception(PATIENCE_S), RequestTimeoutError)
    assert 0 <= request.expires_in <= 1.0
    return request


def responses(real_service: Any) -> list[Any]:
    """Returns how long each response that waits may wait, in seconds; None for ever."""
    waiting = "FROM telesto.messages WHERE receiver_id > 0"
    rows = real_service.query(f"SELECT extract(epoch FROM expires_at - time_of_arrival)::float {waiting}")
    return [life for (life,) in rows]


def until_empty(client: Any, queue_id: int) -> None:
    """Returns when the queue holds nothing, which the service sees to by itself."""
    wait_until(lambda: not client.queue(queue_id).statistics().depth)


def test_a_request_that_nobody_took_in_time_is_not_handled(
    client: Any, connected: Connect, queue_id: int
) -> None:
    with pytest.raises(RequestTimeoutError):
        client.send_request_response_message(queue_id, b"late", timeout=0.01)
    bodies: list[bytes] = []

    def handle(request: Any) -> bytes:
        bodies.append(request.body)
        return b"response"

    until_empty(client, queue_id)
    server = Server(connected("server"), queue_id, handle)
    assert ask(client, queue_id, b"in time") == b"response"
    server.stop()
    assert bodies == [b"in time"]


def test_a_response_to_one_who_has_given_up_is_not_stored(
    client: Any, connected: Connect, queue_id: int, real_service: Any
) -> None:
    client.queue(queue_id).update(bury_expired=True)
    server = connected("server")
    request = asked_and_given_up(client, server, queue_id)
    wait_until(lambda: request.expires_in == 0)
    stored = server.put_message(queue_id, b"for anyone", expires=60)
    assert server.reply(request, b"late") == 0
    assert server.put_message(queue_id, b"late", receiver_id=request.sender_id, expires=0) == 0
    assert server.put_message(queue_id, b"late", dedup_key="late", expires=0) == 0
    assert server.put_message(queue_id, b"in time", dedup_key="late", expires=60) > stored
    assert responses(real_service) == []
    assert list(client.queue(queue_id).dead_letters()) == []
    assert client.queue(queue_id).statistics().depth == 2


def test_a_response_expires_with_its_request(
    client: Any, connected: Connect, queue_id: int, real_service: Any
) -> None:
    server, asker = connected("server"), connected("asker")
    asker.put_message(queue_id, b"x", correlation_id=5, expires=3_000)
    request = server.retrieve_message(queue_id, timeout=PATIENCE_S)
    left = request.expires_in
    server.reply(request, b"in time")
    assert responses(real_service) == [pytest.approx(left, abs=1.0)]
    assert asker.retrieve_message(queue_id, timeout=0).body == b"in time"


@pytest.mark.parametrize("off", [-86_400.0, 86_400.0])
def test_a_response_is_not_lost_when_clocks_differ(
    client: Any, connected: Connect, queue_id: int, monkeypatch: pytest.MonkeyPatch, off: float
) -> None:
    now = time.time
    server = Server(connected("server"), queue_id, lambda request: request.body[::-1])
    monkeypatch.setattr(time, "time", lambda: now() + off)
    assert ask(client, queue_id, b"abc") == b"cba"
    server.stop()


def test_the_response_of_a_server_expires_also_when_its_request_has_no_limit(
    client: Any, connected: Connect, queue_id: int, real_service: Any
) -> None:
    asker = connected("asker")
    asker.put_message(queue_id, b"x", correlation_id=5)
    server = Server(connected("server"), queue_id, lambda request: repr(request.expires_in).encode())
    wait_until(lambda: responses(real_service))
    assert responses(real_service) == [shared.RESPONSE_LIFE]
    assert asker.retrieve_message(queue_id, timeout=0).body == b"None"
    server.stop()


@pytest.mark.parametrize("key", [None, "key"])
def test_what_is_handed_over_tells_when_it_expires(
    client: Any, connected: Connect, real_service: Any, key: str | None
) -> None:
    queue_id = client.create_queue("short", lease=3_600).queue_id
    client.put_message(queue_id, b"1", expires=600, partition_key=key)
    with connected("worker").queue(queue_id).consume() as consumer:
        leased = consumer.get(PATIENCE_S)
        assert 0 < leased.message.expires_in <= 600
        leased.ack()
    client.put_message(queue_id, b"2", partition_key=key)
    with connected("worker 2").queue(queue_id).consume() as consumer:
        leased = consumer.get(PATIENCE_S)
        assert leased.message.expires_in is None
        leased.ack()


def test_what_is_read_tells_when_it_expires_also_after_a_takeover(
    client: Any, connected: Connect, queue_id: int
) -> None:
    client.put_message(queue_id, b"1", expires=600)
    client.put_message(queue_id, b"2")
    reader = connected("reader", options=ClientOptions(auto_confirm=False))
    given = reader.queue(queue_id).get_many(max_messages=2, timeout=0)
    assert [message.expires_in is None for message in given] == [False, True]
    assert 0 < given[0].expires_in <= 600
    again = connected("reader", existing="take_over").queue(queue_id).get_many(max_messages=2, timeout=0)
    assert [(message.body, message.expires_in is None) for message in again] == [(b"1", False), (b"2", True)]
    # Each counts from when its own answer came, later than when it was sent.
    assert abs(again[0].expires_in - given[0].expires_in) < 5
