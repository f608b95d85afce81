"""Every call of a consumer, cancelled at every await: each message is acknowledged, once."""

import asyncio
import gc
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio

from cancelling import CancelledAt
from telesto.client import AsyncTelestoClient, LeaseLostError, Message

PATIENCE_S = 20.0
#: More awaits than any scenario has.
WAITS_MAX = 60
LEFT = """
SELECT message_id FROM telesto.messages
UNION ALL SELECT message_id FROM telesto.leases
UNION ALL SELECT message_id FROM telesto.delayed_messages
"""


class Scene:
    """A client, a queue of three messages, and what became of them.

    Attributes:
        done: acknowledged, and told so.
        begun: to be acknowledged; whether it came to that nobody knows.
    """

    def __init__(self, client: AsyncTelestoClient, queue_id: int) -> None:
        self.client = client
        self.queue_id = queue_id
        self.done: list[bytes] = []
        self.begun: list[bytes] = []

    async def ack(self, leased: Any) -> None:
        """Acknowledges a message."""
        self.begun.append(leased.body)
        await leased.ack()
        self.done.append(leased.body)


async def take_and_acknowledge(scene: Scene) -> None:
    async with scene.client.queue(scene.queue_id).consume(credit=2) as consumer:
        for _ in range(3):
            await scene.ack(await consumer.get(PATIENCE_S))


async def give_back(scene: Scene) -> None:
    async with scene.client.queue(scene.queue_id).consume() as consumer:
        leased = await consumer.get(PATIENCE_S)
        assert leased is not None
        await leased.nack(failed=False)
        await scene.ack(await consumer.get(PATIENCE_S))


async def touch(scene: Scene) -> None:
    async with scene.client.queue(scene.queue_id).consume() as consumer:
        leased = await consumer.get(PATIENCE_S)
        assert leased is not None
        await leased.touch()
        await scene.ack(leased)


async def leave_blocks(scene: Scene) -> None:
    async with scene.client.queue(scene.queue_id).consume() as consumer:
        async for leased in consumer:
            async with leased:
                scene.begun.append(leased.body)
            if len(scene.begun) == 3:
                return


async def close_with_messages(scene: Scene) -> None:
    consumer = scene.client.queue(scene.queue_id).consume()
    try:  # what a consumer has is kept for it until it is closed
        await consumer.get(PATIENCE_S)
    finally:
        await consumer.close()


async def have_a_handler_work(scene: Scene) -> None:
    limit = asyncio.timeout(PATIENCE_S)

    async def handle(message: Message) -> None:
        await asyncio.sleep(0)
        scene.begun.append(message.body)
        if len(scene.begun) == 3:
            limit.reschedule(asyncio.get_running_loop().time())
            await asyncio.sleep(PATIENCE_S)

    with suppress(TimeoutError):
        async with limit:
            await scene.client.queue(scene.queue_id).run_consumer(handle, concurrency=2, drain=0.02)


async def serve_requests(scene: Scene) -> None:
    limit = asyncio.timeout(PATIENCE_S)

    async def handle(message: Message) -> bytes:
        scene.begun.append(message.body)
        if len(scene.begun) == 3:
            limit.reschedule(asyncio.get_running_loop().time())
            await asyncio.sleep(PATIENCE_S)
        return message.body

    with suppress(TimeoutError):
        async with limit:
            await scene.client.queue(scene.queue_id).serve_requests(handle, drain=0.02)


SCENARIOS: list[Callable[[Scene], Coroutine[Any, Any, None]]] = [
    take_and_acknowledge,
    give_back,
    touch,
    leave_blocks,
    close_with_messages,
    have_a_handler_work,
    serve_requests,
]


@pytest_asyncio.fixture
async def client(real_service_url: str) -> AsyncIterator[AsyncTelestoClient]:
    """A connected client of the real service."""
    async with AsyncTelestoClient(real_service_url, name="alice") as client:
        await client.connect()
        yield client


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_call_may_be_cancelled_at_any_await(
    client: AsyncTelestoClient, real_service: Any, scenario: Callable[[Scene], Coroutine[Any, Any, None]]
) -> None:
    queue = await client.create_queue("work", lease=0.5, backoff=0, max_attempts=1_000)
    for wait in itertools.count(1):
        assert wait < WAITS_MAX
        bodies = [b"%d.%d" % (wait, number) for number in range(3)]
        await client.queue(queue.queue_id).put_many(bodies)
        scene = Scene(client, queue.queue_id)
        reached = await cancel_at(scenario(scene), wait)
        again = await drain(client, queue.queue_id, real_service)
        assert not set(scene.done) & set(again)
        assert set(bodies) <= set(scene.begun) | set(again)
        if not reached:
            break
    assert wait > 2


async def cancel_at(scenario: Coroutine[Any, Any, None], wait: int) -> bool:
    """Cancels at the so-manieth await; says whether there was one."""
    cancelled = CancelledAt(scenario, wait)

    async def run(cancelled: CancelledAt) -> None:
        await cancelled

    task = asyncio.ensure_future(run(cancelled))
    await asyncio.wait([task], timeout=PATIENCE_S)
    if not task.cancelled():
        task.result()
    del task
    reached = cancelled.reached
    del cancelled, scenario, run
    gc.collect()  # a consumer that nobody has closed, nor can take from any more, gives back what waits there
    return reached


async def drain(client: AsyncTelestoClient, queue_id: int, real_service: Any) -> list[bytes]:
    """Acknowledges what comes until nothing is left; what the cancelled call had comes back by its lease."""
    acknowledged: list[bytes] = []
    async with asyncio.timeout(3 * PATIENCE_S), client.queue(queue_id).consume() as consumer:
        while await asyncio.to_thread(real_service.query, LEFT):
            leased = await consumer.get(0.05)
            if leased is not None:
                with suppress(LeaseLostError):
                    await leased.ack()
                    acknowledged.append(leased.body)
    return acknowledged
