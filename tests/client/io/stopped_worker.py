"""A worker that ends at SIGTERM in one of the ways that there are; its handler waits for a line of input."""

import asyncio
import json
import signal
import sys
import threading

from telesto.client import AsyncTelestoClient, Message, TelestoClient

TASK = json.loads(sys.argv[1])


def handle(message: Message) -> None:
    print(message.text, flush=True)
    sys.stdin.readline()
    print("ended", message.text, flush=True)


def work() -> None:
    with TelestoClient(TASK["url"], name="worker") as client:
        client.connect()
        if TASK["way"] == "signals":
            client.queue(TASK["queue_id"]).run_consumer(handle, credit=4, stop_signals=(signal.SIGTERM,))
        else:
            signal.signal(signal.SIGTERM, lambda *_: client.close())
            client.queue(TASK["queue_id"]).run_consumer(handle, credit=4)


async def work_asyncio() -> None:
    async def handle_asyncio(message: Message) -> None:
        ended = asyncio.get_running_loop().create_future()

        def read() -> None:
            handle(message)
            ended.get_loop().call_soon_threadsafe(ended.set_result, None)

        threading.Thread(target=read, daemon=True).start()
        await ended

    async with AsyncTelestoClient(TASK["url"], name="worker") as client:
        await client.connect()
        if TASK["way"] == "asyncio-signals":
            await client.queue(TASK["queue_id"]).run_consumer(
                handle_asyncio, credit=4, stop_signals=(signal.SIGTERM,)
            )
        else:
            task = asyncio.create_task(client.queue(TASK["queue_id"]).run_consumer(handle_asyncio, credit=4))
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
            await asyncio.wait([task])
            assert task.cancelled()


if __name__ == "__main__":
    if TASK["way"].startswith("asyncio"):
        asyncio.run(work_asyncio())
    else:
        work()
