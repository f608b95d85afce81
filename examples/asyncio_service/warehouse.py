"""A service of asyncio: it takes orders by TCP, a line each, and packs them in the background."""

import argparse
import asyncio
import signal
from functools import partial

from telesto import AsyncQueue, AsyncTelestoClient, Message


async def take_order(orders: AsyncQueue, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Puts the line of a connection and answers with the message's id; the order is on disk by then."""
    try:
        item = (await reader.readline()).decode().strip()
        if item:
            writer.write(b"%d\n" % await orders.put({"item": item}))
            await writer.drain()
    finally:
        writer.close()


async def pack(parcels: AsyncQueue, order: Message) -> None:
    """Packs an order. It may come twice; the key has its parcel put once."""
    item = order.json()["item"]
    await parcels.put(f"a parcel with {item}", dedup_key=f"order-{order.message_id}")


async def serve(port: int) -> None:
    """Serves until SIGTERM or Ctrl-C. Orders that are being packed then are packed; the others wait."""
    async with AsyncTelestoClient(name="warehouse-{host}-{pid}") as client:
        orders = await client.declare_queue("orders")
        parcels = await client.declare_queue("parcels")
        server = await asyncio.start_server(partial(take_order, orders), "127.0.0.1", port)
        print("listening on", server.sockets[0].getsockname()[1], flush=True)
        try:
            stop_signals = (signal.SIGTERM, signal.SIGINT)
            await orders.run_consumer(partial(pack, parcels), concurrency=8, stop_signals=stop_signals)
        finally:
            server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000, help="0 for a free one")
    asyncio.run(serve(parser.parse_args().port))
