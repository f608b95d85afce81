"""A worker that prints what it begins, and waits for a line when that is "first": see test_paused.py."""

from __future__ import annotations

import asyncio
import os
import sys

from telesto.client import AsyncTelestoClient, Message, TelestoClient


def handle(message: Message) -> None:
    """Says what it has; the whole process stands still meanwhile if it is an event loop."""
    print(message.text, flush=True)
    if message.text == "first":
        sys.stdin.readline()
    if message.text == "end":
        os._exit(0)


def consume(how: str, url: str, name: str, queue_id: int) -> None:
    with TelestoClient(url) as client:
        client.connect(name, existing="use")
        if how == "loop":
            with client.consume(queue_id) as consumer:
                for leased in consumer:
                    with leased:
                        handle(leased.message)
        else:
            client.run_consumer(queue_id, handle, keep_alive=how == "kept")


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
    if how.startswith("async"):
        asyncio.run(consume_in_a_loop(how, url, name, int(queue_id)))
    else:
        consume(how, url, name, int(queue_id))


if __name__ == "__main__":
    main()
