"""Serving requests with both clients: answers, failures, and a crash between answer and acknowledgement."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from telesto.client import Queue, QueueNotExistingError

Connect = Callable[..., Any]
PATIENCE_S = 60


@pytest.fixture
def service_url(real_service_url: str) -> str:
    """Consumers need the real service."""
    return real_service_url


@pytest.fixture
def queue_id(client: Any) -> int:
    queue: Queue = client.create_queue("requests", backoff_ms=0)
    return queue.queue_id


class Server:
    """A client that serves requests in a thread, until it is stopped."""

    def __init__(self, client: Any, queue_id: int, handler: Callable[[Any], Any], **options: Any) -> None:
        self.client = client
        self._executor = ThreadPoolExecutor(1)
        self._serving = self._executor.submit(client.serve_requests, queue_id, handler, **options)

    def stop(self) -> None:
        self.client.close()
        assert self.wait() is None

    def wait(self) -> Any:
        self._executor.shutdown(wait=False)
        return self._serving.exception(PATIENCE_S) or self._serving.result()


def ask(client: Any, queue_id: int, body: bytes) -> bytes:
    response = client.send_request_response_message(queue_id, body, timeout=PATIENCE_S)
    assert response is not None
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
    assert client.queue_statistics(queue_id).depth == 0


def test_a_handler_that_fails_does_not_end_the_server(client: Any, connected: Connect, queue_id: int) -> None:
    failures: list[tuple[bytes, int, str]] = []

    def handle(request: Any) -> bytes:
        if request.attempt == 1:
            raise ValueError("cannot yet")
        return request.body * 2  # type: ignore[no-any-return]

    def failed(request: Any, error: BaseException) -> None:
        failures.append((request.body, request.attempt, str(error)))

    server = Server(connected("server"), queue_id, handle, on_error=failed)
    assert ask(client, queue_id, b"x") == b"xx"
    assert failures == [(b"x", 1, "cannot yet")]
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
        return None if request.context else b"to nobody"

    server = Server(connected("server"), queue_id, handle)
    client.put_message(queue_id, b"no context")
    client.put_message(queue_id, b"not answered", context=5)
    for _ in range(2):
        assert handled.acquire(timeout=PATIENCE_S)
    until_answered(real_service)
    server.stop()
    assert client.queue_statistics(queue_id).depth == 0


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
    session = getattr(worker, "client", worker)._session
    with monkeypatch.context() as patch:
        patch.setattr(session.consumers, "ack_soon", lambda *_: acknowledging.release())
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
    assert runs == [1, 2, 3]
    assert client.retrieve_message(queue_id, timeout=0) is None
    assert client.queue_statistics(queue_id).depth == 0


def test_deleting_the_queue_ends_the_server(client: Any, connected: Connect, queue_id: int) -> None:
    server = Server(connected("server"), queue_id, lambda request: request.body)
    assert ask(client, queue_id, b"x") == b"x"
    client.delete_queue(queue_id)
    assert isinstance(server.wait(), QueueNotExistingError)
