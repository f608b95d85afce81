"""The blocking client in signal handlers, and consumers that end at a signal."""

import _thread
import asyncio
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer
from faults.waiting import wait_until
from started import STARTED
from telesto.client import (
    AsyncTelestoClient,
    CallInterruptedBySignalError,
    ClientClosedError,
    ClientInterruptedError,
    InvalidParameterError,
    TelestoClient,
    TelestoError,
)
from telesto.client.blocking import client as blocking_client
from telesto.client.io.driver import Driver

#: How long a call may take that nothing holds up, on a very busy machine.
PATIENCE_S = 30.0
ROUNDS = 150
#: The main thread, which has nothing else to do, waits by then.
WAITS_BY_THEN_S = 0.3


@contextmanager
def handled(handler: Callable[[], None]) -> Iterator[None]:
    """Has a handler called when SIGUSR1 arrives."""
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@contextmanager
def signalled(chance: random.Random) -> Iterator[None]:
    """Sends SIGUSR1 to the main thread, again and again."""
    ended = threading.Event()

    def send() -> None:
        while not ended.wait(chance.expovariate(1 / 0.0005)):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield
    finally:
        ended.set()
        sending.join(PATIENCE_S)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("others", [0, 2])
def test_a_call_in_a_signal_handler_works_or_raises_at_once(
    fake_server: FakeServer, others: int, durable: bool, tmp_path: Path
) -> None:
    chance = random.Random(1)
    queue_id = fake_server.service.add_queue("orders")
    # All are there: what a Counter does about one that is missing lets another thread in.
    outcomes: Counter[str] = Counter(done=0, refused=0, handler=0, main=0, other=0)
    ended = threading.Event()
    with TelestoClient(
        fake_server.url, state_dir=tmp_path / "state" if durable else None, name="alice"
    ) as client:
        client.connect()

        def interrupt() -> None:
            try:
                chance.choice([put, count, client.ping])()
                outcomes["done"] += 1
            except CallInterruptedBySignalError:
                outcomes["refused"] += 1

        def put() -> None:
            client.put_message(queue_id, b"handler")
            outcomes["handler"] += 1

        def count() -> None:
            client.queue(queue_id).statistics()

        def others_put() -> None:
            while not ended.is_set():
                client.put_message(queue_id, b"other")
                outcomes["other"] += 1

        threads = [threading.Thread(target=others_put) for _ in range(others)]
        for thread in threads:
            thread.start()
        with handled(interrupt), signalled(chance):
            while min(outcomes["done"], outcomes["refused"]) < 30 and outcomes["main"] < 20_000:
                client.put_message(queue_id, b"main")
                outcomes["main"] += 1
        ended.set()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        expected = outcomes["main"] + outcomes["handler"] + outcomes["other"]
        assert client.queue(queue_id).statistics().depth == expected
    assert outcomes["refused"]


class InterruptedLock(type(threading.RLock())):  # type: ignore[misc]
    """A driver's lock: a signal's handler raises just when a thread has let go of it, once."""

    thread = 0

    def release(self) -> None:
        super().release()
        if threading.get_ident() == self.thread:
            self.thread = 0
            raise KeyboardInterrupt


@pytest.mark.parametrize("moment", ["connecting", "waiting", "writing"])
def test_a_call_that_is_interrupted_when_it_begins_to_wait_leaves_the_lock_in_order(
    fake_server: FakeServer, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_id = fake_server.service.add_queue("orders")
    lock = InterruptedLock()

    class LockedDriver(Driver):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.inner_lock = lock

    monkeypatch.setattr(blocking_client, "Driver", LockedDriver)
    with TelestoClient(
        fake_server.url, state_dir=tmp_path if moment == "writing" else None, name="alice"
    ) as client:
        if moment != "connecting":
            client.connect()
        with ThreadPoolExecutor(1) as executor:
            call = partial(client.put_message, queue_id, b"x") if moment == "writing" else client.ping
            lock.thread = threading.get_ident()
            with pytest.raises(KeyboardInterrupt):
                call()
            # Another thread goes on, or hears that the client cannot.
            with suppress(ClientInterruptedError):
                assert executor.submit(client.ping).result(PATIENCE_S) >= 0


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("others", [0, 2])
def test_a_client_is_closed_in_a_signal_handler_at_any_moment(
    fake_server: FakeServer, others: int, durable: bool, tmp_path: Path
) -> None:
    chance = random.Random(2)
    queue_id = fake_server.service.add_queue("orders")

    def put_on(client: TelestoClient, connected: threading.Event | None = None) -> None:
        try:
            while True:
                client.put_message(queue_id, b"work")
                if connected is not None:
                    connected.set()
        except ClientClosedError:
            pass

    for number in range(ROUNDS):
        state = tmp_path / f"{number}" if durable else None
        client = TelestoClient(fake_server.url, state_dir=state, name=f"client-{number}")
        client.connect()
        threads = [threading.Thread(target=put_on, args=(client,)) for _ in range(others)]
        connected = threading.Event()

        def kill(connected: threading.Event = connected, after: float = chance.uniform(0, 0.003)) -> None:
            connected.wait(PATIENCE_S)
            time.sleep(after)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        killing = threading.Thread(target=kill)
        with handled(client.close):
            for thread in [*threads, killing]:
                thread.start()
            put_on(client, connected)
            for thread in [*threads, killing]:
                thread.join(PATIENCE_S)
                assert not thread.is_alive()
        client.close()
        assert not client.connected


def test_a_consumer_waits_in_a_call_too(fake_server: FakeServer) -> None:
    with TelestoClient(fake_server.url, name="alice") as client:
        client.connect()
        queue_id = fake_server.service.add_queue("orders")
        errors: list[TelestoError] = []

        def read() -> None:
            try:
                client.retrieve_message(queue_id)
            except TelestoError as error:
                errors.append(error)

        with handled(read):
            threading.Timer(
                0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1)
            ).start()
            while not errors:
                assert client.retrieve_message(queue_id, timeout=0.05) is None
    assert isinstance(errors[0], CallInterruptedBySignalError)


def test_signals_that_no_handler_can_have_are_refused(fake_server: FakeServer) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with TelestoClient(fake_server.url, name="alice") as client:
        client.connect()
        with pytest.raises(InvalidParameterError, match="stop_signals"):
            client.queue(1).run_consumer(print, stop_signals=(signal.SIGTERM, signal.SIGKILL))
        errors: list[BaseException] = []

        def run() -> None:
            try:
                client.queue(1).run_consumer(print, stop_signals=(signal.SIGTERM,))
            except InvalidParameterError as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(PATIENCE_S)
        assert ["main thread only" in str(error) for error in errors] == [True]
    assert signal.getsignal(signal.SIGTERM) is before


async def test_signals_that_no_handler_can_have_are_refused_for_asyncio(fake_server: FakeServer) -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def handle(message: Any) -> None:
        raise AssertionError

    async with AsyncTelestoClient(fake_server.url, name="alice") as client:
        await client.connect()
        with pytest.raises(InvalidParameterError, match="stop_signals"):
            await client.queue(1).run_consumer(handle, stop_signals=(signal.SIGTERM, signal.SIGKILL))
    assert signal.getsignal(signal.SIGTERM) is before


def soon() -> None:
    """Sends the main thread a signal, once it has had the time to wait."""
    assert threading.main_thread().ident is not None
    threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1)).start()


MOMENTS = ["waiting", "working", "second of two gets", "away"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_signal_ends_an_iteration_over_a_topic_and_nothing_is_lost(
    fake_server: FakeServer, dead_port: int, moment: str
) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with (
        TelestoClient(f"telesto://127.0.0.1:{dead_port}", name="alice") as away,
        TelestoClient(fake_server.url, name="alice") as client,
        ThreadPoolExecutor(1) as executor,
    ):
        topic = client.topic("prices")
        topic.subscribe()
        topic.put_many([b"1", b"2", b"3"])
        got = []
        if moment == "second of two gets":
            assert len(topic.get_many(3)) == 3
            first = executor.submit(topic.get, timeout=2)
            wait_until(lambda: first.running())
        if moment != "working":
            soon()
        read = away.topic("prices") if moment == "away" else topic
        for message in read.messages(stop_signals=(signal.SIGUSR1,)):
            got.append(message.body)
            if moment == "working" and len(got) == 2:
                signal.raise_signal(signal.SIGUSR1)
        assert got == {"waiting": [b"1", b"2", b"3"], "working": [b"1", b"2"]}.get(moment, [])
        assert signal.getsignal(signal.SIGUSR1) is before
        if moment == "second of two gets":
            assert first.result() is None
        topic.put(b"4")
        rest = [message.body for message in topic.messages(timeout=0)]
        assert got + rest == ([b"4"] if moment == "second of two gets" else [b"1", b"2", b"3", b"4"])


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_signal_ends_an_iteration_over_a_topic_of_asyncio(
    fake_server: FakeServer, dead_port: int, moment: str
) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    async with (
        AsyncTelestoClient(f"telesto://127.0.0.1:{dead_port}", name="alice") as away,
        AsyncTelestoClient(fake_server.url, name="alice") as client,
    ):
        topic = client.topic("prices")
        await topic.subscribe()
        await topic.put_many([b"1", b"2", b"3"])
        got = []
        if moment == "second of two gets":
            assert len(await topic.get_many(3)) == 3
            first = asyncio.create_task(topic.get(timeout=2))
            await asyncio.sleep(0)
        if moment != "working":
            soon()
        read = away.topic("prices") if moment == "away" else topic
        async for message in read.messages(stop_signals=(signal.SIGUSR1,)):
            got.append(message.body)
            if moment == "working" and len(got) == 2:
                signal.raise_signal(signal.SIGUSR1)
                await asyncio.sleep(0.05)
        assert got == {"waiting": [b"1", b"2", b"3"], "working": [b"1", b"2"]}.get(moment, [])
        assert signal.getsignal(signal.SIGUSR1) is before
        if moment == "second of two gets":
            assert await first is None
        await topic.put(b"4")
        rest = [message.body async for message in topic.messages(timeout=0)]
        assert got + rest == ([b"4"] if moment == "second of two gets" else [b"1", b"2", b"3", b"4"])


# ---------------------------------------------------------------------------------- whole processes
class StoppedWorker:
    """A worker in a process of its own, see stopped_worker.py."""

    def __init__(self, url: str, queue_id: int, way: str) -> None:
        program = Path(__file__).with_name("stopped_worker.py")
        task = json.dumps({"url": url, "queue_id": queue_id, "way": way})
        self._process = subprocess.Popen(
            [*STARTED, sys.executable, str(program), task],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def begun(self) -> str:
        """Waits until a message is begun; returns its body."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def end(self, word: str = "go\n") -> tuple[int, str, str]:
        """Lets its handler end; its exit status and what it said."""
        out, err = self._process.communicate(word, timeout=PATIENCE_S)
        return self._process.returncode, out, err

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


WAYS = ["signals", "handler", "asyncio-signals", "asyncio-cancel"]


@pytest.mark.parametrize("way", WAYS)
def test_sigterm_lets_a_handler_end_and_gives_the_rest_back(
    real_service: Any, real_service_url: str, way: str
) -> None:
    with TelestoClient(real_service_url, name="alice") as client:
        client.connect()
        queue_id = client.create_queue("orders").queue_id
        client.queue(queue_id).put_many([b"%d" % number for number in range(4)])
        worker = StoppedWorker(real_service_url, queue_id, way)
        try:
            assert worker.begun() == "0"
            worker.terminate()
            # The rest is back before the handler has ended, so the signal has been noticed.
            rest = [client.retrieve_message(queue_id, timeout=PATIENCE_S) for _ in range(3)]
            assert [message and (message.body, message.attempt) for message in rest] == [
                (b"%d" % number, 1) for number in range(1, 4)
            ]
            status, said, complaints = worker.end()
        finally:
            worker.kill()
        assert (status, said.split(), complaints) == (0, ["ended", "0"], "")
        assert client.queue(queue_id).statistics().depth == 0


@pytest.mark.parametrize("moment", ["idle", "following", "working"])
def test_a_signal_that_arrives_just_before_a_consumer_waits_is_heard(
    real_service_url: str, moment: str
) -> None:
    """``interrupt_main`` leaves what such a signal leaves: it is pending, and interrupts no wait."""
    begun, may_end = threading.Event(), threading.Event()
    with (
        ThreadPoolExecutor(2) as executor,
        TelestoClient(real_service_url, name="bob") as other,
        TelestoClient(real_service_url, name="alice") as client,
    ):
        other.connect()
        client.connect()
        queue_id = client.create_queue("orders", lease=3_600).queue_id
        empty_id = client.create_queue("empty").queue_id
        client.queue(queue_id).put_many([b"0", b"1"] if moment == "working" else [b"0"])

        def handle(_: Any) -> None:
            begun.set()
            assert may_end.wait(2 * PATIENCE_S)

        def interrupt() -> bool:
            assert begun.wait(PATIENCE_S)
            if moment != "working":
                may_end.set()
            time.sleep(WAITS_BY_THEN_S)
            _thread.interrupt_main(signal.SIGUSR1)
            if moment != "working":
                return stopped.wait(PATIENCE_S)
            rest = other.retrieve_message(queue_id, timeout=PATIENCE_S)
            may_end.set()
            return rest is not None

        stopped = threading.Event()
        if moment == "following":
            executor.submit(client.retrieve_message, empty_id, timeout=2 * PATIENCE_S)
        heard = executor.submit(interrupt)
        client.queue(queue_id).run_consumer(handle, credit=4, stop_signals=(signal.SIGUSR1,))
        stopped.set()
        assert heard.result(PATIENCE_S)
        client.close()


@pytest.mark.parametrize("way", ["signals", "asyncio-signals"])
def test_a_second_sigterm_ends_at_once(real_service_url: str, way: str) -> None:
    with TelestoClient(real_service_url, name="alice") as client:
        client.connect()
        queue_id = client.create_queue("orders").queue_id
        client.queue(queue_id).put_many([b"0", b"1"])
        worker = StoppedWorker(real_service_url, queue_id, way)
        try:
            assert worker.begun() == "0"
            worker.terminate()
            assert client.retrieve_message(queue_id, timeout=PATIENCE_S) is not None
            worker.terminate()
            status, _, _ = worker.end("")
        finally:
            worker.kill()
        assert status == -signal.SIGTERM
