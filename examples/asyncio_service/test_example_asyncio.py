"""Tests the service's functions by themselves, and the program as it is started, killed and ended."""

import asyncio
from collections.abc import Callable

from programs import LIMIT, Program
from telesto import AsyncTelestoClient
from warehouse import pack


async def order(program: Program, item: str) -> int:
    """Order as a customer does, and return the order's id."""
    port = int(program.wait_for("listening on").split()[-1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(item.encode() + b"\n")
    answer = await asyncio.wait_for(reader.readline(), LIMIT)
    writer.close()
    await writer.wait_closed()
    return int(answer)


async def test_an_order_that_comes_twice_is_one_parcel(async_telesto_client: AsyncTelestoClient) -> None:
    orders = await async_telesto_client.declare_queue("orders")
    parcels = await async_telesto_client.declare_queue("parcels")
    await orders.put({"item": "glue"})
    message = await orders.get(timeout=LIMIT)
    assert message is not None
    await pack(parcels, message)
    await pack(parcels, message)
    assert [parcel.text async for parcel in parcels.browse()] == ["a parcel with glue"]


async def test_the_service_packs_what_is_ordered(
    start: Callable[..., Program], async_telesto_client: AsyncTelestoClient
) -> None:
    service = start("warehouse.py", "--port", "0")
    await order(service, "nails")
    parcel = await async_telesto_client.queue("parcels").get(timeout=LIMIT)
    assert parcel is not None
    assert parcel.text == "a parcel with nails"
    assert await asyncio.to_thread(service.stop) == []


async def test_what_was_ordered_before_a_kill_is_packed_by_the_next_one(
    start: Callable[..., Program], async_telesto_client: AsyncTelestoClient
) -> None:
    killed = start("warehouse.py", "--port", "0")
    await order(killed, "a saw")
    killed.kill()
    service = start("warehouse.py", "--port", "0")
    await order(service, "a hammer")
    parcels = async_telesto_client.queue("parcels")
    packed = [await parcels.get(timeout=LIMIT) for _ in range(2)]
    assert {parcel.text for parcel in packed if parcel} == {"a parcel with a saw", "a parcel with a hammer"}
    assert await parcels.get(timeout=0) is None
    assert await asyncio.to_thread(service.stop) == []
