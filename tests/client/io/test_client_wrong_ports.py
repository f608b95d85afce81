"""A client at a port where something else listens says what is there, as far as that can be told."""

import asyncio
import http.server
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client import start_http_server

from fake_server import FakeServer
from faults.waiting import wait_until
from shells import LoopThread, Open, noted
from telesto.client import ClientOptions, NoAnswerError, NotConnectedError, NotTelestoError
from telesto.client.connection.greeting import LINE_ENDS
from telesto.client.session.session import Session
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.metrics.http import AdminServer
from telesto.middleware.metrics.tracing import Tracer

#: A call that is given up only at its end hangs, for the purposes of a test.
ENDLESS = ClientOptions(call_timeout=1000.0)


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """Runs a server that does this with each connection; gives its URL."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            answer(self.request)

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    with serving(server):
        yield f"telesto://127.0.0.1:{server.server_address[1]}"


@contextmanager
def saying(first: bytes) -> Iterator[str]:
    """Runs a server that says this to each connection, once something has come, and waits for its end."""

    def answer(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(first)
        while connection.recv(1000):
            pass

    with answering(answer) as url:
        yield url


def refusal(open_client: Open, url: str, options: ClientOptions = ENDLESS) -> NotTelestoError:
    client = open_client(url, options, name="alice")
    with pytest.raises(NotTelestoError) as raised:
        client.connect()
    with pytest.raises(NotTelestoError) as of_ping:
        client.ping()
    assert of_ping.value.details == raised.value.details
    assert raised.value.address == urlsplit(url).netloc
    assert raised.value.details.startswith(urlsplit(url).netloc)
    return raised.value


# ---------------------------------------------------------------------------------- real servers
def test_a_web_server(open_client: Open) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    with serving(server):
        error = refusal(open_client, f"telesto://127.0.0.1:{server.server_address[1]}")
    assert "speaks HTTP" in error.details
    assert "7001 by default" in error.details


def test_the_metrics_of_an_application(open_client: Open) -> None:
    server, thread = start_http_server(0, "127.0.0.1")
    try:
        assert "metrics" in refusal(open_client, f"telesto://127.0.0.1:{server.server_port}").details
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_metrics_of_telesto(open_client: Open) -> None:
    with LoopThread().running() as thread:
        admin = AdminServer(Counters(), Tracer(thread.loop, 1), list, list, list)

        async def serve() -> asyncio.Server:
            return await thread.loop.create_server(admin.make_connection, "127.0.0.1", 0)

        async def end(server: asyncio.Server) -> None:
            server.close()
            await server.wait_closed()

        server = thread.run(serve())
        try:
            port = server.sockets[0].getsockname()[1]
            assert "metrics" in refusal(open_client, f"telesto://127.0.0.1:{port}").details
        finally:
            thread.run(end(server))


def test_postgresql(open_client: Open, postgres_url: str) -> None:
    address = urlsplit(postgres_url)
    error = refusal(open_client, f"telesto://{address.hostname}:{address.port}")
    assert "is PostgreSQL" in error.details
    assert "telesto serve" in error.details


def test_a_server_for_tls_that_closes(open_client: Open) -> None:
    """Python's and OpenSSL's do so. A proxy whose middlewares start does too, so the client waits a while."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    failures: list[ssl.SSLError] = []

    def shake_hands(connection: socket.socket) -> None:
        try:
            context.wrap_socket(connection, server_side=True).close()
        except ssl.SSLError as error:
            failures.append(error)

    with answering(shake_hands) as url:
        client = open_client(url, ClientOptions(call_timeout=1000.0, greeting_timeout=0.2), name="alice")
        with pytest.raises(NoAnswerError, match="TLS") as raised:
            client.connect()
        assert raised.value.address == urlsplit(url).netloc
    assert len(failures) > 1


# ---------------------------------------------------------------------------------- what others send
@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP"),
        (b"<html><body>400", "speaks HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "speaks TLS"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "speaks SSH"),
        (b"-ERR unknown command\r\n", "Redis"),
        (b"AMQP\x00\x00\x09\x01", "RabbitMQ"),
        (b'INFO {"server_id":"N"}\r\n', "NATS"),
        (b"220 mail.example ESMTP\r\n", "SMTP"),
        (b"\x4a\x00\x00\x00\x0a8.0.36\x00", "MySQL"),
        (b"+hello there\r\n", r"answers '+hello there\r\n'"),
        (b"\xff\x1b[2J\x07" + b"x" * 100, "answers the bytes ff 1b 5b 32 4a 07 78"),
        # Frames of the right form, but not of ours.
        (b"\x00\x00\x00\x06\x00\x08\x00\x00\x00\x09", "answers the bytes 00 00 00 06"),
        (b"\x00\x00\x00\x06\x00\x08\x00\x00\x00\x01", "answers the bytes 00 00 00 06"),
    ],
)
@pytest.mark.parametrize("open_client", ["blocking", "asyncio"], indirect=True)
def test_what_the_first_bytes_tell(open_client: Open, first: bytes, said: str) -> None:
    with saying(first) as url:
        error = refusal(open_client, url)
    assert said in error.details
    assert error.details.isprintable()
    assert len(error.details) < 250


@pytest.mark.parametrize("open_client", ["blocking", "asyncio"], indirect=True)
def test_an_answer_that_comes_byte_by_byte(open_client: Open) -> None:
    def answer(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(OSError):  # the client closes
            for byte in b"HTTP/1.1 400 Bad Request" * 1000:
                connection.sendall(bytes([byte]))

    with answering(answer) as url:
        client = open_client(url, ENDLESS, name="alice")
        with pytest.raises(NotTelestoError):
            client.connect()


# ---------------------------------------------------------------------------------- silence
def test_what_stays_silent_is_not_taken_for_another_kind(open_client: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"telesto://127.0.0.1:{listener.getsockname()[1]}"
        options = ClientOptions(call_timeout=1000.0, ping_after=0.05, greeting_timeout=0.1)
        client = open_client(url, options, name="alice")
        with pytest.raises(NoAnswerError, match="stopped or overloaded") as raised:
            client.connect()
    assert isinstance(raised.value, NotConnectedError)
    assert raised.value.address == urlsplit(url).netloc


def test_a_silent_address_among_dead_ones_is_tried_on(
    open_client: Open, dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not listen yet may be the middleware that starts."""
    failed = noted(monkeypatch, Session, "attempt_failed")
    with answering(lambda connection: None) as url:
        options = ClientOptions(call_timeout=1000.0, greeting_timeout=0.001, backoff_max=0.01)
        client = open_client(f"{url},127.0.0.1:{dead_port}", options, name="alice")
        connecting = threading.Thread(target=client.connect)
        connecting.start()
        wait_until(lambda: len(failed) > 20)
        server = FakeServer()
        server.port = dead_port
        with server.running():
            connecting.join()
            assert client.ping() >= 0
            client.close()


def test_a_middleware_that_is_deaf_for_a_while_is_waited_for(
    open_client: Open, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = noted(monkeypatch, Session, "attempt_failed")
    fake_server.deaf = True
    options = ClientOptions(call_timeout=1000.0, ping_after=0.02, greeting_timeout=1000.0, backoff_max=0.01)
    client = open_client(fake_server.url, options, name="alice")
    connecting = threading.Thread(target=client.connect)
    connecting.start()
    wait_until(lambda: len(failed) > 2)
    fake_server.deaf = False
    connecting.join()
    assert client.ping() >= 0


# ---------------------------------------------------------------------------------- later
def test_a_client_that_was_connected_waits_for_the_service_whatever_is_there(
    open_client: Open, dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer()
    server.port = dead_port
    client = open_client(f"telesto://127.0.0.1:{dead_port}", ClientOptions(backoff_max=0.01), name="alice")
    with server.running():
        client.connect()
    failed = noted(monkeypatch, Session, "attempt_failed")
    web = http.server.ThreadingHTTPServer(("127.0.0.1", dead_port), _Handler)
    with serving(web):
        wait_until(lambda: any(isinstance(error, NotTelestoError) for error in list(failed)))
    again = FakeServer()
    again.port = dead_port
    again.service = server.service
    with again.running():
        assert client.ping() >= 0
        client.close()


def test_the_greeting_ends_two_lines() -> None:
    assert LINE_ENDS.to_bytes(4, "big") == b"\r\n\r\n"
