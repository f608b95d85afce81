"""Handlers of the wrong kind, which do nothing when they are called or return nothing to await."""

import asyncio
import functools
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from telesto.client import (
    AsyncTelestoClient,
    ClientOptions,
    InvalidParameterError,
    NotConnectedError,
    TelestoClient,
)
from telesto.client.aio.consumer import AsyncConsumer
from telesto.client.blocking.consumer import Consumer
from telesto.client.blocking.pool import Pool
from telesto.client.bookkeeping.consumer_calls import NextCall
from telesto.client.session.session import Session

#: Nothing listens there: what is refused is refused before anything is sent.
NOWHERE = "telesto://127.0.0.1:1"
WAYS = ["run_consumer", "serve_requests"]


async def waits(*_: Any) -> None:
    raise AssertionError("not to be run")


def yields(*_: Any) -> Iterator[None]:
    raise AssertionError("not to be run")
    yield


async def waits_and_yields(*_: Any) -> AsyncIterator[None]:
    raise AssertionError("not to be run")
    yield


class Waiting:
    async def __call__(self, *_: Any) -> None:
        raise AssertionError("not to be run")

    async def method(self, *_: Any) -> None:
        raise AssertionError("not to be run")


DEFERRED = [waits, yields, waits_and_yields, Waiting(), Waiting().method, functools.partial(waits, None)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("handler", DEFERRED)
def test_a_handler_that_does_nothing_when_it_is_called_is_refused_at_once(
    way: str, handler: Callable[..., Any]
) -> None:
    with (
        TelestoClient(NOWHERE) as client,
        pytest.raises(InvalidParameterError, match="handler must be a plain function"),
    ):
        getattr(client.queue(1), way)(handler)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("handler", DEFERRED)
async def test_so_is_one_that_should_tell_of_failures(way: str, handler: Callable[..., Any]) -> None:
    """Both clients call it and do not await it."""
    said = "on_error must be a plain function"
    with TelestoClient(NOWHERE) as client, pytest.raises(InvalidParameterError, match=said):
        getattr(client.queue(1), way)(print, on_error=handler)
    async with AsyncTelestoClient(NOWHERE) as other:
        with pytest.raises(InvalidParameterError, match=said):
            await getattr(other.queue(1), way)(waits, on_error=handler)


@pytest.mark.parametrize("way", WAYS)
async def test_an_async_handler_that_yields_is_refused_at_once(way: str) -> None:
    async with AsyncTelestoClient(NOWHERE) as client:
        with pytest.raises(InvalidParameterError, match="async function that does not yield"):
            await getattr(client.queue(1), way)(waits_and_yields)


def message_again(url: str, queue_id: int) -> tuple[bytes, int]:
    """Takes the message that must have come back, and how often it was tried."""
    with TelestoClient(url, name="heir") as client:
        client.connect()
        with client.queue(queue_id).consume() as consumer:
            leased = consumer.get(60)
            assert leased is not None
            leased.ack()
            return leased.body, leased.message.attempt


def queue_with_message(url: str) -> int:
    with TelestoClient(url, name="boss") as client:
        client.connect()
        queue = client.create_queue("orders", backoff=0)
        client.put_message(queue.queue_id, b"one", correlation_id=7)
        return queue.queue_id


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("handler", "returned"),
    [
        (lambda message: waits(message), "coroutine"),
        (lambda message: yields(message), "generator"),
        (lambda message: waits_and_yields(message), "async_generator"),
    ],
)
def test_what_was_wrapped_ends_with_the_reason_and_gives_the_message_back(
    real_service_url: str, way: str, handler: Callable[..., Any], returned: str
) -> None:
    """It would be acknowledged otherwise, with nothing done."""
    queue_id = queue_with_message(real_service_url)
    failed: list[BaseException] = []
    with TelestoClient(real_service_url, name="worker") as client:
        client.connect()
        with pytest.raises(InvalidParameterError, match=f"it returned a {returned}"):
            getattr(client.queue(queue_id), way)(handler, on_error=lambda _, error: failed.append(error))
    assert failed == []
    assert message_again(real_service_url, queue_id) == (b"one", 1)


@pytest.mark.parametrize("way", WAYS)
async def test_a_plain_handler_of_the_asyncio_client_ends_with_the_reason(
    real_service_url: str, way: str
) -> None:
    queue_id = await asyncio.to_thread(queue_with_message, real_service_url)
    failed: list[BaseException] = []
    async with AsyncTelestoClient(real_service_url, name="worker") as client:
        await client.connect()
        async with asyncio.timeout(60):
            with pytest.raises(InvalidParameterError, match="something else to await, not NoneType"):
                await getattr(client.queue(queue_id), way)(
                    lambda _: None, on_error=lambda _, error: failed.append(error)
                )
    assert failed == []
    assert await asyncio.to_thread(message_again, real_service_url, queue_id) == (b"one", 1)


class Plain:
    def __call__(self, *_: Any) -> dict[str, int]:
        raise AssertionError("not to be run")

    def method(self, *_: Any) -> str:
        raise AssertionError("not to be run")


def plain(*_: Any) -> None:
    raise AssertionError("not to be run")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "handler", [plain, functools.partial(plain, 1), Plain(), Plain().method, yields, waits_and_yields]
)
async def test_a_handler_that_returns_nothing_to_await_by_its_annotation_is_refused_at_once(
    way: str, handler: Callable[..., Any]
) -> None:
    async with AsyncTelestoClient(NOWHERE) as client:
        with pytest.raises(InvalidParameterError, match="handler must be an async function"):
            await getattr(client.queue(1), way)(handler)


def unannotated(*_):  # type: ignore[no-untyped-def]
    return waits()


@functools.wraps(waits)
def decorated(*_: Any) -> Any:
    return waits()


def annotated(*_: Any) -> Awaitable[None]:
    return waits()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("handler", "is_told"),
    [
        (unannotated, True),
        (functools.partial(unannotated, 1), True),
        (decorated, False),
        (annotated, False),
        (waits, False),
        (Waiting(), False),
        (lambda message: waits(message), False),
    ],
)
async def test_a_plain_handler_that_does_not_say_what_it_returns_is_told(
    way: str, handler: Callable[..., Any], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    client = AsyncTelestoClient(NOWHERE, options=ClientOptions(connect_tries=1))
    async with client:
        with pytest.raises(NotConnectedError):
            await getattr(client.queue(1), way)(handler)
    assert ("handler unannotated is a plain function" in caplog.text) is is_told
    assert caplog.text.count("plain function") == is_told


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: lambda m: f(m), functools.partial])
async def test_whatever_returns_something_to_await_works(
    real_service_url: str, wrap: Callable[[Any], Any]
) -> None:
    queue_id = await asyncio.to_thread(queue_with_message, real_service_url)
    handled = asyncio.Event()

    async def handle(message: Any) -> None:
        handled.set()

    async with AsyncTelestoClient(real_service_url, name="worker") as client:
        await client.connect()
        working = asyncio.create_task(client.queue(queue_id).run_consumer(wrap(handle)))
        async with asyncio.timeout(60):
            await handled.wait()
            await client.close()
            await working


def test_a_failure_that_is_told_in_vain_is_logged(
    real_service_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue_id = queue_with_message(real_service_url)
    done = threading.Event()

    def handle(message: Any) -> None:
        if message.attempt == 1:
            raise ValueError("not today")
        done.set()

    with TelestoClient(real_service_url, name="worker") as client:
        client.connect()
        working = threading.Thread(
            target=client.queue(queue_id).run_consumer,
            args=(handle,),
            kwargs={"on_error": lambda message, error: waits(message, error)},
        )
        working.start()
        assert done.wait(60)
    working.join(60)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert "on_error must do its work when it is called" in str(record.exc_info[1])


# ---------------------------------------------------------------------------------- as it is stopped
def put_two(url: str) -> int:
    with TelestoClient(url, name="boss") as client:
        client.connect()
        queue = client.create_queue("orders", backoff=0)
        client.queue(queue.queue_id).put_many([b"first", b"second"])
        return queue.queue_id


async def test_what_comes_as_a_pool_is_stopped_goes_back_unbegun_before_handlers_end(
    real_service_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_id = await asyncio.to_thread(put_two, real_service_url)
    running, go_on = asyncio.Event(), asyncio.Event()
    seen: list[bytes] = []
    get = AsyncConsumer.get

    async def handle(message: Any) -> None:
        seen.append(message.body)
        running.set()
        await go_on.wait()

    async def get_as_it_stops(self: AsyncConsumer, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        leased = await get(self, timeout)
        if leased is not None and leased.body == b"second":
            await running.wait()
            closing.append(asyncio.create_task(client.close(drain=1000)))
            await asyncio.sleep(0)  # the pool knows now that it is to end
        return leased

    closing: list[asyncio.Task[None]] = []
    monkeypatch.setattr(AsyncConsumer, "get", get_as_it_stops)
    async with AsyncTelestoClient(real_service_url, name="worker") as client, asyncio.timeout(60):
        await client.connect()
        working = asyncio.create_task(client.queue(queue_id).run_consumer(handle, concurrency=2))
        await running.wait()
        # It would wait for the handler of the first otherwise, and count as begun.
        assert await asyncio.to_thread(message_again_by_get, real_service_url, queue_id) == b"second"
        go_on.set()
        await working
    assert seen == [b"first"]


def test_what_comes_as_a_pool_of_threads_is_stopped_goes_back_before_handlers_end(
    real_service_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_id = put_two(real_service_url)
    running, go_on = threading.Event(), threading.Event()
    seen: list[bytes] = []
    get = Consumer.get

    def handle(message: Any) -> None:
        seen.append(message.body)
        running.set()
        assert go_on.wait(60)

    def get_as_it_stops(self: Consumer, timeout: float | None = None) -> Any:
        leased = get(self, timeout)
        if leased is not None and leased.body == b"second":
            assert running.wait(60)
            pools[0].stop(1000)
        return leased

    pools = pools_that_run(monkeypatch)
    monkeypatch.setattr(Consumer, "get", get_as_it_stops)
    with TelestoClient(real_service_url, name="worker") as client:
        client.connect()
        working = threading.Thread(
            target=client.queue(queue_id).run_consumer, args=(handle,), kwargs={"concurrency": 2}
        )
        working.start()
        try:
            assert running.wait(60)
            assert message_again_by_get(real_service_url, queue_id) == b"second"
        finally:
            go_on.set()
        working.join(60)
    assert seen == [b"first"]


#: How long a thread takes to end.
SLOW_END_S = 0.5


def test_a_pool_whose_handlers_end_in_time_leaves_no_thread(
    real_service_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_id = put_two(real_service_url)
    ended = Consumer._ended

    def ended_late(self: Consumer, leased: Any) -> None:
        time.sleep(SLOW_END_S)
        ended(self, leased)

    pools = pools_that_run(monkeypatch)
    monkeypatch.setattr(Consumer, "_ended", ended_late)
    with TelestoClient(real_service_url, name="worker") as client:
        client.connect()
        left: list[str] = []

        def work() -> None:
            client.queue(queue_id).run_consumer(lambda _: pools[0].stop(), concurrency=2)
            left.extend(thread.name for thread in threading.enumerate() if "consumer" in thread.name)

        working = threading.Thread(target=work)
        working.start()
        working.join(60)
        assert not working.is_alive()
    assert left == []


def pools_that_run(monkeypatch: pytest.MonkeyPatch) -> list[Pool]:
    """Those that have begun to run from now on."""
    pools: list[Pool] = []
    run = Pool.run

    def note_and_run(pool: Pool) -> None:
        pools.append(pool)
        run(pool)

    monkeypatch.setattr(Pool, "run", note_and_run)
    return pools


def message_again_by_get(url: str, queue_id: int) -> bytes | None:
    with TelestoClient(url, name="heir") as client:
        client.connect()
        message = client.retrieve_message(queue_id, timeout=30)
        return None if message is None else message.body


async def test_a_consumer_stopped_as_a_message_comes_gives_nothing(
    real_service_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_id = await asyncio.to_thread(queue_with_message, real_service_url)
    finish = Session.finish

    def finish_and_stop(session: Session, call: Any) -> None:
        finish(session, call)
        if isinstance(call, NextCall):
            asyncio.get_running_loop().call_soon(consumer.stop)

    monkeypatch.setattr(Session, "finish", finish_and_stop)
    async with AsyncTelestoClient(real_service_url, name="worker") as client, asyncio.timeout(60):
        await client.connect()
        consumer = client.queue(queue_id).consume()
        waiting = asyncio.create_task(consumer.get())
        assert await waiting is None
        monkeypatch.undo()
        assert await asyncio.to_thread(message_again_by_get, real_service_url, queue_id) == b"one"
