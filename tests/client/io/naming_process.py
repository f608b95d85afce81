"""A process that is a client until its input ends; it tells its name, or why it may not have it."""

import asyncio
import sys

from telesto.client import AsyncTelestoClient, TelestoClient
from telesto.protocol.errors import TelestoError


def say(text: str) -> None:
    print(text, flush=True)


def blocking(url: str, name: str) -> None:
    with TelestoClient(url, name=name) as client:
        say(client.connect().name)
        for _ in sys.stdin:
            say(str(len(client.get_queues())))


async def on_loop(url: str, name: str) -> None:
    async with AsyncTelestoClient(url, name=name) as client:
        say((await client.connect()).name)
        while await asyncio.to_thread(sys.stdin.readline):
            say(str(len(await client.get_queues())))


if __name__ == "__main__":
    try:
        if sys.argv[1] == "blocking":
            blocking(*sys.argv[2:])
        else:
            asyncio.run(on_loop(*sys.argv[2:]))
    except TelestoError as error:
        say(f"{type(error).__name__}: {error}")
        sys.exit(1)
