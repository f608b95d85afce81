"""Both clients over real sockets: lost, silent, slow and missing connections, threads, signals and forks."""

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from fake_server import FakeServer
from faults.waiting import wait_until
from shells import Open, hurry, noted
from telesto.client import (
    AsyncTelestoClient,
    ClientClosedError,
    ClientInterruptedError,
    ClientOptions,
    DeadlineExceededError,
    ForkedError,
    NotConnectedError,
    NotTelestoError,
    TelestoClient,
)
from telesto.client.blocking import client as blocking_client
from telesto.client.bookkeeping.consumer_calls import JoinCall
from telesto.client.connection.link import Link
from telesto.client.io.driver import Driver
from telesto.client.session.session import Session
from telesto.protocol.packets import NewMessage

#: No call that nothing holds up takes longer, on a very busy machine.
PATIENCE_S = 30.0
QUICK = ClientOptions(connect_tries=2, backoff_initial=0.01, connect_timeout=PATIENCE_S)


@pytest.fixture
def queue_id(fake_server: FakeServer) -> int:
    queue_id: int = fake_server.do(lambda: fake_server.service.add_queue("orders"))
    return queue_id


@pytest.fixture
def client(open_client: Open, fake_server: FakeServer) -> Any:
    client = open_client(fake_server.url, name="alice")
    client.connect()
    return client


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[Driver]:
    """Those of the blocking clients that are made from now on."""
    made: list[Driver] = []

    class NotedDriver(Driver):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(blocking_client, "Driver", NotedDriver)
    return made


@pytest.fixture
def blocking(fake_server: FakeServer, drivers: list[Driver]) -> Iterator[TelestoClient]:
    with TelestoClient(fake_server.url, name="alice") as client:
        client.connect()
        yield client


def put_by_another(server: FakeServer, queue_id: int, body: bytes) -> None:
    def put() -> None:
        server.service.put(999, queue_id, NewMessage(5, 0, body, None))
        server.service.wake()

    server.do(put)


# ---------------------------------------------------------------------------------- connections
def test_nothing_listens(open_client: Open, dead_port: int) -> None:
    client = open_client(f"telesto://127.0.0.1:{dead_port}", QUICK, name="alice")
    with pytest.raises(NotConnectedError, match="is `telesto serve` running") as raised:
        client.connect()
    assert raised.value.address == f"127.0.0.1:{dead_port}"
    assert isinstance(raised.value.__cause__, ConnectionRefusedError)
    with pytest.raises(NotConnectedError, match=f"127.0.0.1:{dead_port}"):
        client.ping()


def test_a_host_that_does_not_exist(open_client: Open) -> None:
    with pytest.raises(NotConnectedError, match="spelled right"):
        open_client("telesto://no-such-host.invalid", ClientOptions(connect_tries=1)).ping()


def test_a_listener_that_never_answers(open_client: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = ClientOptions(connect_tries=1, try_timeout=0.1, call_timeout=5)
        client = open_client(f"telesto://127.0.0.1:{silent.getsockname()[1]}", options, name="alice")
        with pytest.raises(Exception, match="no answer within") as raised:
            client.connect()
        # What says how long nothing came says from where.
        assert str(silent.getsockname()[1]) in str(raised.value)


def test_the_first_connection_waits_for_the_service(
    open_client: Open, dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits as long as a call does, not only for as many attempts as a request has."""
    options = ClientOptions(max_tries=1, backoff_initial=0.001, backoff_max=0.01)
    client = open_client(f"telesto://127.0.0.1:{dead_port}", options, name="alice")
    failed = noted(monkeypatch, Session, "attempt_failed")
    with ThreadPoolExecutor(1) as executor:
        connecting = executor.submit(client.connect)
        wait_until(lambda: len(failed) > 10)
        assert not connecting.done()
        server = FakeServer()
        server.port = dead_port
        with server.running():
            connecting.result(PATIENCE_S)
            assert client.ping() >= 0
            client.close()


def test_the_first_connection_ends_in_time_and_says_why(open_client: Open, dead_port: int) -> None:
    client = open_client(
        f"telesto://127.0.0.1:{dead_port}",
        ClientOptions(call_timeout=0.05, backoff_initial=0.01),
        name="alice",
    )
    for call in (client.connect, client.ping):
        with pytest.raises(NotConnectedError, match=r"within 0\.05 s.*is `telesto serve` running") as raised:
            call()
        assert raised.value.address == f"127.0.0.1:{dead_port}"
        assert isinstance(raised.value.__cause__, NotConnectedError)


@pytest.mark.parametrize("tries", [None, 2])
def test_a_service_that_answers_no_hello_is_not_connected(open_client: Open, tries: int | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = ClientOptions(
            connect_tries=tries,
            try_timeout=0.05,
            call_timeout=0.3 if tries is None else 20,
            backoff_initial=0.01,
        )
        client = open_client(f"telesto://127.0.0.1:{silent.getsockname()[1]}", options, name="alice")
        with pytest.raises(NotConnectedError) as raised:
            client.connect()
        assert raised.value.address is not None


def test_what_does_not_speak_the_protocol_is_given_up(open_client: Open) -> None:
    """No patience makes a web server one of ours."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as executor:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
                connection.recv(1000)

        answering = executor.submit(answer)
        options = ClientOptions(call_timeout=60)
        client = open_client(f"telesto://127.0.0.1:{server.getsockname()[1]}", options, name="alice")
        with pytest.raises(NotTelestoError):
            client.connect()
        answering.result(PATIENCE_S)


def test_a_consumer_that_is_stopped_does_not_wait_to_join(
    open_client: Open, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_client(fake_server.url, ClientOptions(try_timeout=1000, call_timeout=1000), name="alice")
    client.connect()
    consumer = client.queue(fake_server.service.add_queue("orders")).consume()
    sent = noted(monkeypatch, Link, "send")
    fake_server.deaf = True
    with ThreadPoolExecutor(1) as executor:
        getting = executor.submit(consumer.get, 1000)
        wait_until(lambda: any(isinstance(call, JoinCall) for call in list(sent)))
        consumer.stop()
        assert getting.result(PATIENCE_S) is None
    fake_server.deaf = False
    consumer.close()


def test_the_second_address_serves(open_client: Open, fake_server: FakeServer, dead_port: int) -> None:
    client = open_client(f"telesto://127.0.0.1:{dead_port},127.0.0.1:{fake_server.port}", name="alice")
    client.connect()
    assert client.address == f"127.0.0.1:{fake_server.port}"


def test_the_answer_is_lost_with_the_connection(client: Any, fake_server: FakeServer, queue_id: int) -> None:
    session = client.session
    fake_server.cut_after_next = True
    message_id = client.put_message(queue_id, b"x")
    assert client.session > session
    assert [message.message_id for message in fake_server.service.queues[queue_id].messages] == [message_id]


def test_an_idle_connection_is_replaced(client: Any, fake_server: FakeServer) -> None:
    session = client.session
    fake_server.cut()
    wait_until(lambda: client.connected and client.session > session)


def test_a_waiting_read_outlives_its_connection(client: Any, fake_server: FakeServer, queue_id: int) -> None:
    with ThreadPoolExecutor(1) as executor:
        reading = executor.submit(client.retrieve_message, queue_id, timeout=PATIENCE_S)
        fake_server.wait_for(lambda: len(fake_server.service.parked) == 1)
        session = client.session
        fake_server.cut()
        fake_server.wait_for(
            lambda: (
                len(fake_server.service.parked) == 1
                and fake_server.service.parked[0].connection.session > session
            )
        )
        put_by_another(fake_server, queue_id, b"m")
        assert reading.result(PATIENCE_S).body == b"m"


def test_a_silent_connection_is_left(open_client: Open, fake_server: FakeServer, queue_id: int) -> None:
    client = open_client(fake_server.url, ClientOptions(try_timeout=0.2), name="alice")
    client.connect()
    fake_server.deaf = True
    timer = threading.Timer(0.1, lambda: setattr(fake_server, "deaf", False))
    timer.start()
    assert client.put_message(queue_id, b"x") > 0
    timer.join()
    assert len(fake_server.service.put_bodies) == 1


def test_time_is_up_although_the_connection_lives(
    open_client: Open, fake_server: FakeServer, queue_id: int
) -> None:
    client = open_client(fake_server.url, name="alice")
    client.connect()
    hurry(client, call_timeout=0.1, close_timeout=0.1)
    fake_server.deaf = True
    with pytest.raises(DeadlineExceededError, match=r"no answer within 0\.1 s"):
        client.put_message(queue_id, b"x")


def test_a_middleware_that_drains_is_left(client: Any, fake_server: FakeServer, queue_id: int) -> None:
    old = fake_server.do(lambda: list(fake_server.served))[0]
    fake_server.do(lambda: old.connection.go_away([]))
    fake_server.wait_for(lambda: len(fake_server.served) == 1 and fake_server.served[0] is not old)
    assert client.put_message(queue_id, b"x") > 0


def test_an_idle_client_confirms(client: Any, fake_server: FakeServer, queue_id: int) -> None:
    client.put_message(queue_id, b"x")
    client.confirm([client.retrieve_message(queue_id, timeout=0)])
    service = fake_server.service
    fake_server.wait_for(lambda: not service.operations and not service.deliveries)


#: A client that nobody slows down has put its messages by then.
DONE_BY_THEN_S = 0.1


def test_a_slow_middleware_slows_the_client_down(client: Any, fake_server: FakeServer, queue_id: int) -> None:
    served = fake_server.do(lambda: list(fake_server.served))[0]
    fake_server.do(served.transport.pause_reading)
    bodies = [bytes(1_000_000)] * 30
    with ThreadPoolExecutor(1) as executor:
        putting = executor.submit(client.queue(queue_id).put_many, bodies)
        time.sleep(DONE_BY_THEN_S)
        assert not putting.done()
        fake_server.do(served.transport.resume_reading)
        results = putting.result(PATIENCE_S)
    assert [result.error for result in results] == [None] * 30


def test_large_messages_arrive_whole(client: Any, queue_id: int) -> None:
    body = os.urandom(5_000_000)
    client.put_message(queue_id, body)
    assert client.retrieve_message(queue_id, timeout=0).body == body


def test_closing_ends_what_waits(client: Any, fake_server: FakeServer, queue_id: int) -> None:
    with ThreadPoolExecutor(1) as executor:
        reading = executor.submit(client.retrieve_message, queue_id, timeout=None)
        fake_server.wait_for(lambda: len(fake_server.service.parked) == 1)
        client.close()
        assert isinstance(reading.exception(PATIENCE_S), ClientClosedError)
    fake_server.wait_for(lambda: not fake_server.served)


def test_closing_twice_at_the_same_time(client: Any) -> None:
    with ThreadPoolExecutor(4) as executor:
        for closing in [executor.submit(client.close) for _ in range(4)]:
            closing.result(PATIENCE_S)


def test_closing_before_anything_was_done(open_client: Open, fake_server: FakeServer) -> None:
    open_client(fake_server.url).close()


def test_closing_a_client_that_cannot_connect(
    open_client: Open, dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = noted(monkeypatch, Session, "attempt_failed")
    client = open_client(
        f"telesto://127.0.0.1:{dead_port}",
        ClientOptions(backoff_initial=30, backoff_max=30),
        name="alice",
    )
    with ThreadPoolExecutor(1) as executor:
        connecting = executor.submit(client.connect)
        wait_until(lambda: failed)
        client.close()
        assert isinstance(connecting.exception(PATIENCE_S), ClientClosedError)


# ---------------------------------------------------------------------------------- threads
def test_threads_share_a_client(blocking: TelestoClient, fake_server: FakeServer, queue_id: int) -> None:
    def put(thread: int) -> list[int]:
        return [blocking.put_message(queue_id, b"%d %d" % (thread, number)) for number in range(100)]

    with ThreadPoolExecutor(8) as executor:
        reading = executor.submit(
            blocking.retrieve_message, fake_server.service.add_queue("empty"), timeout=None
        )
        ids = [message_id for ids in executor.map(put, range(7)) for message_id in ids]
        assert not reading.done()
        blocking.close()
    assert len(set(ids)) == 700
    bodies = [body for _, body in fake_server.service.put_bodies]
    for thread in range(7):
        own = [body for body in bodies if body.startswith(b"%d " % thread)]
        assert own == [b"%d %d" % (thread, number) for number in range(100)]


def test_threads_read_and_put_over_lost_connections(
    blocking: TelestoClient, fake_server: FakeServer, queue_id: int
) -> None:
    taken: list[bytes] = []

    def read() -> None:
        while (message := blocking.retrieve_message(queue_id, timeout=PATIENCE_S)) and message.body != b"end":
            taken.append(message.body)

    def put(thread: int) -> None:
        for number in range(100):
            blocking.put_message(queue_id, b"%d %d" % (thread, number))

    with ThreadPoolExecutor(6) as executor:
        reading = [executor.submit(read) for _ in range(3)]
        putting = [executor.submit(put, thread) for thread in range(3)]
        put_bodies = fake_server.service.put_bodies
        while not all(future.done() for future in putting):
            # Each connection brings a little, however slow the machine is.
            before = len(put_bodies)
            wait_until(lambda: len(put_bodies) > before + 2 or all(future.done() for future in putting))  # noqa: B023
            fake_server.cut()
        for future in putting:
            future.result()
        for _ in reading:
            blocking.put_message(queue_id, b"end", priority=1)
        for reader in reading:
            reader.result(PATIENCE_S)
    assert sorted(taken) == sorted(
        b"%d %d" % (thread, number) for thread in range(3) for number in range(100)
    )


# ---------------------------------------------------------------------------------- signals and forks
@contextmanager
def interrupted_when(server: FakeServer, driver: Driver, parked: int) -> Iterator[None]:
    """Ctrl-C, once so many reads wait in the server and the client waits for its socket."""

    def interrupt() -> None:
        server.wait_for(lambda: len(server.service.parked) == parked and driver.waiting)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    handler = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    try:
        with ThreadPoolExecutor(1) as executor:
            interrupting = executor.submit(interrupt)
            yield
            interrupting.result()
    finally:
        signal.signal(signal.SIGUSR1, handler)


def test_an_interrupted_call_leaves_the_client_usable(
    blocking: TelestoClient, drivers: list[Driver], fake_server: FakeServer, queue_id: int
) -> None:
    with interrupted_when(fake_server, drivers[0], 1), pytest.raises(KeyboardInterrupt):
        blocking.retrieve_message(queue_id)
    fake_server.wait_for(lambda: not fake_server.service.parked)
    message_id = blocking.put_message(queue_id, b"x")
    message = blocking.retrieve_message(queue_id, timeout=0)
    assert message is not None
    assert message.message_id == message_id


def test_an_interrupted_thread_hands_the_socket_on(
    blocking: TelestoClient, drivers: list[Driver], fake_server: FakeServer, queue_id: int
) -> None:
    second_queue = fake_server.do(lambda: fake_server.service.add_queue("second"))
    with ThreadPoolExecutor(1) as executor:

        def follow() -> Any:
            fake_server.wait_for(lambda: len(fake_server.service.parked) == 1)
            return blocking.retrieve_message(second_queue)

        following = executor.submit(follow)
        with interrupted_when(fake_server, drivers[0], 2), pytest.raises(KeyboardInterrupt):
            blocking.retrieve_message(queue_id)
        put_by_another(fake_server, second_queue, b"m")
        assert following.result(PATIENCE_S).body == b"m"


def test_an_interruption_in_the_middle_of_a_change_ends_the_client(
    blocking: TelestoClient, fake_server: FakeServer, queue_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_session: Session, _data: bytes) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Session, "feed", interrupt)
        with pytest.raises(KeyboardInterrupt):
            blocking.put_message(queue_id, b"x")
    with pytest.raises(ClientInterruptedError):
        blocking.put_message(queue_id, b"x")
    fake_server.wait_for(lambda: not fake_server.served)
    with TelestoClient(fake_server.url, name="alice") as again:
        again.connect()
        assert again.put_message(queue_id, b"y") > 0


@pytest.mark.parametrize("kind", [TelestoClient, AsyncTelestoClient])
def test_a_client_that_is_not_used_before_the_fork_is_used_in_the_child(
    kind: Any, fake_server: FakeServer
) -> None:
    client = kind(fake_server.url, name="worker-{pid}")

    async def name_of_asyncio() -> str:
        async with client:
            record = await client.connect()
        return str(record.name)

    def name() -> str:
        if kind is AsyncTelestoClient:
            return asyncio.run(name_of_asyncio())
        with client:
            return str(client.connect().name)

    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if name() == f"worker-{os.getpid()}" else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert name() == f"worker-{os.getpid()}"


def test_a_child_that_is_forked_during_the_first_call_is_told(fake_server: FakeServer) -> None:
    with ThreadPoolExecutor(1) as executor:
        client = TelestoClient(fake_server.url, name="alice")
        queue_id = fake_server.do(lambda: fake_server.service.add_queue("orders"))
        reading = executor.submit(client.retrieve_message, queue_id)
        fake_server.wait_for(lambda: fake_server.service.parked)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                client.ping()
            except ForkedError:
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        put_by_another(fake_server, queue_id, b"m")
        assert reading.result(PATIENCE_S).body == b"m"
        client.close()


def test_a_forked_child_is_told(blocking: TelestoClient, queue_id: int) -> None:
    blocking.put_message(queue_id, b"x")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            blocking.put_message(queue_id, b"y")
        except ForkedError:
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert blocking.put_message(queue_id, b"z") > 0
    assert blocking.queue(queue_id).statistics().depth == 2
