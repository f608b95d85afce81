"""Workers in the event loop of a test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from telesto.tasks import App, Worker

#: How long a test waits for what must come, in seconds.
PATIENCE_S = 60.0


@asynccontextmanager
async def working(app: App, **options: Any) -> AsyncIterator[Worker]:
    """A worker of the application, stopped at the end."""
    worker = Worker(app, **options)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(running, PATIENCE_S)


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, which is looked at in a thread."""
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.02)
