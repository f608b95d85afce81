"""What a handle does while it asks the service for its queue's id."""

import asyncio
from collections.abc import Awaitable
from threading import Thread

import pytest

from fake_server import FakeServer
from fake_service import FakeConnection
from faults.waiting import wait_until
from shells import opening
from telesto.client import (
    AsyncTelestoClient,
    ClientClosedError,
    ClientOptions,
    Message,
    TelestoClient,
)
from telesto.protocol import packets

PATIENCE_S = 60.0
#: Far longer than a test may take.
LONG = ClientOptions(call_timeout=10_000, try_timeout=10_000, ping_after=10_000)


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names for whose ids the service was asked."""
    names: list[str] = []
    answer = FakeConnection._on_get_queue_id  # noqa: SLF001

    def count(self: FakeConnection, packet_id: int, packet: packets.GetQueueId) -> packets.Packet:
        names.append(packet.queue_name)
        return answer(self, packet_id, packet)

    monkeypatch.setattr(FakeConnection, "_on_get_queue_id", count)
    return names


async def in_time(work: Awaitable[object]) -> object:
    return await asyncio.wait_for(work, PATIENCE_S)


def bodies(fake_server: FakeServer) -> list[bytes]:
    return [body for _, body in fake_server.service.put_bodies]


async def test_one_question_serves_all_who_use_a_handle_first(
    fake_server: FakeServer, looked_up: list[str]
) -> None:
    fake_server.service.add_queue("orders")
    async with AsyncTelestoClient(fake_server.url) as client:
        orders = client.queue("orders")
        await in_time(asyncio.gather(*(orders.put(b"%d" % number) for number in range(9))))
    assert looked_up == ["orders"]
    assert bodies(fake_server) == [b"%d" % number for number in range(9)]


@pytest.mark.parametrize("remade", [False, True])
async def test_no_later_put_overtakes_one_that_looks_up(
    fake_server: FakeServer, looked_up: list[str], remade: bool
) -> None:
    fake_server.service.add_queue("orders")
    async with AsyncTelestoClient(fake_server.url) as client, AsyncTelestoClient(fake_server.url) as other:
        orders = client.queue("orders")
        if remade:
            await orders.statistics()
            await other.queue("orders").delete()
            await other.create_queue("orders")
            looked_up.clear()
        before = orders.queue_id
        early = [asyncio.create_task(orders.put(b"%d" % number)) for number in range(5)]
        await asyncio.sleep(0)
        while orders.queue_id in (0, before) and not all(put.done() for put in early):  # noqa: ASYNC110
            await asyncio.sleep(0)  # each turn of the loop counts
        await orders.put(b"late")
        await asyncio.gather(*early)
    assert looked_up == ["orders"]
    assert bodies(fake_server)[-6:] == [*(b"%d" % number for number in range(5)), b"late"]


async def test_the_next_asks_when_the_first_is_cancelled(fake_server: FakeServer) -> None:
    fake_server.service.add_queue("orders")
    async with AsyncTelestoClient(fake_server.url) as client:
        await client.connect()
        orders = client.queue("orders")
        first, second = (asyncio.create_task(orders.put(body)) for body in (b"1", b"2"))
        await asyncio.sleep(0)
        first.cancel()
        assert await in_time(second)
        assert orders.queue_id > 0
    assert bodies(fake_server) == [b"2"]


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_stop_ends_the_question_for_a_consumers_queue(fake_server: FakeServer, kind: str, sent: bool) -> None:
    fake_server.service.add_queue("orders")
    with opening(kind) as open_one:
        client = open_one(fake_server.url, options=LONG)
        client.connect()
        fake_server.deaf = True
        consumer = client.queue("orders").consume()
        taken: list[object] = []
        getting = Thread(target=lambda: taken.append(consumer.get()))
        getting.start()
        if sent:
            wait_until(lambda: fake_server.do(lambda: list(fake_server.dropped)))
        consumer.stop()
        getting.join(PATIENCE_S)
        assert taken == [None]
        fake_server.deaf = False
        fake_server.cut()


def test_confirm_of_a_closed_client_is_refused(fake_server: FakeServer) -> None:
    fake_server.service.add_queue("orders")
    with TelestoClient(fake_server.url, options=ClientOptions(auto_confirm=False)) as client:
        client.queue("orders").put(b"1")
        given = client.queue("orders").get()
    for refused in (client.confirm, client.release):
        with pytest.raises(ClientClosedError):
            refused([given])


async def test_confirm_works_while_a_client_that_closes_lets_handlers_end(real_service_url: str) -> None:
    client = AsyncTelestoClient(real_service_url, options=ClientOptions(auto_confirm=False))
    orders = await client.create_queue("orders")
    await orders.put_many([b"1", b"2"])
    message = await orders.get()
    begun, may_end, confirmed = asyncio.Event(), asyncio.Event(), []

    async def handle(_: Message) -> None:
        begun.set()
        await may_end.wait()
        await client.confirm([message])
        confirmed.append(message)

    working = asyncio.create_task(orders.run_consumer(handle))
    await in_time(begun.wait())
    closing = asyncio.create_task(client.close(drain=PATIENCE_S))
    await asyncio.sleep(0)
    may_end.set()
    await in_time(asyncio.gather(working, closing))
    assert confirmed == [message]
    for refused in (client.confirm, client.release):
        with pytest.raises(ClientClosedError):
            await refused([message])
