"""A worker that the message "poison" kills, in the way that it is told to consume: see test_begun.py."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from telesto.client import AsyncTelestoClient, Message, TelestoClient


def handle(message: Message) -> None:
    """Says what it has, or dies of it in its first statement."""
    if message.text == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    print(message.text, flush=True)


def consume(how: str, url: str, name: str, queue_id: int) -> None:
    with TelestoClient(url) as client:
        client.connect(name, existing="use")
        if how == "loop":
            with client.consume(queue_id) as consumer:
                for leased in consumer:
                    with leased:
                        handle(leased.message)
        else:
            client.run_consumer(queue_id, handle, concurrency=8 if how == "threads" else 1)


async def consume_in_a_loop(how: str, url: str, name: str, queue_id: int) -> None:
    async def handler(message: Message) -> None:
        handle(message)

    async with AsyncTelestoClient(url) as client:
        await client.connect(name, existing="use")
        if how == "async loop":
            async with client.consume(queue_id) as consumer:
                async for leased in consumer:
                    async with leased:
                        handle(leased.message)
        else:
            await client.run_consumer(queue_id, handler, concurrency=8)


def main() -> None:
    how, url, name, queue_id = sys.argv[1:]
    if how.startswith("uvloop"):
        import uvloop

        uvloop.run(consume_in_a_loop(how.removeprefix("uvloop "), url, name, int(queue_id)))
    elif how.startswith("async"):
        asyncio.run(consume_in_a_loop(how, url, name, int(queue_id)))
    else:
        consume(how, url, name, int(queue_id))


if __name__ == "__main__":
    main()
