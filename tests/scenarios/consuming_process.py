"""What the workers of test_begun.py and test_paused.py have in common: the ways in which they consume."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from telesto.client import AsyncTelestoClient, Message, TelestoClient

Handle = Callable[[Message], None]


def consume(how: str, url: str, name: str, queue_id: int, handle: Handle, pool: dict[str, Any]) -> None:
    with TelestoClient(url, name=name) as client:
        client.connect()
        if how == "loop":
            with client.queue(queue_id).consume() as consumer:
                for leased in consumer:
                    with leased:
                        handle(leased.message)
        else:
            client.queue(queue_id).run_consumer(handle, **pool)


async def consume_in_a_loop(how: str, url: str, name: str, queue_id: int, handle: Handle) -> None:
    async def handler(message: Message) -> None:
        handle(message)

    async with AsyncTelestoClient(url, name=name) as client:
        await client.connect()
        if how == "async loop":
            async with client.queue(queue_id).consume() as consumer:
                async for leased in consumer:
                    async with leased:
                        handle(leased.message)
        else:
            await client.queue(queue_id).run_consumer(handler, concurrency=8)


def main(handle: Handle, pool: Callable[[str], dict[str, Any]]) -> None:
    """Consumes as the command line says.

    Args:
        handle: what is done with each message.
        pool: returns the options of the blocking client's `run_consumer`, by the way to consume.
    """
    how, url, name, queue_id = sys.argv[1:]
    if how.startswith("uvloop"):
        import uvloop

        uvloop.run(consume_in_a_loop(how.removeprefix("uvloop "), url, name, int(queue_id), handle))
    elif how.startswith("async"):
        asyncio.run(consume_in_a_loop(how, url, name, int(queue_id), handle))
    else:
        consume(how, url, name, int(queue_id), handle, pool(how))
