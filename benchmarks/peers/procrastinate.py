"""procrastinate: jobs deferred in batches, workers that delete them, psycopg."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

from telesto.benchmarks.peers.interface import Address, Client, Sink
from telesto.benchmarks.peers.postgres import PostgresPeer
from telesto.benchmarks.tiers.connection import connected

CONCURRENCY: Final = 4
TASK: Final = "bench"


class ProcrastinatePeer(PostgresPeer):
    """A job for each message; every consumer is a worker."""

    module = __name__

    async def install(self) -> None:
        """Apply the schema."""
        app = _app(self.url)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def make_queue(self, queue: str) -> None:
        """Do nothing: a queue is a name."""

    async def left(self, queue: str) -> list[bytes]:
        """Read the table: workers delete finished jobs."""
        async with connected(self.url) as connection:
            rows = await connection.fetch(
                "SELECT args ->> 'body' AS body FROM procrastinate_jobs WHERE queue_name = $1", queue
            )
        return [row["body"].encode() for row in rows]

    async def drop_queue(self, queue: str) -> None:
        """Empty the tables, so that every run begins alike."""
        async with connected(self.url) as connection:
            await connection.execute("TRUNCATE procrastinate_jobs CASCADE")

    async def describe(self) -> dict[str, str]:
        """Versions, and how jobs are deferred and processed."""
        return {
            "procrastinate": f"{version('procrastinate')}, PsycopgConnector, psycopg {version('psycopg')}",
            "put": f"batch_defer_async, up to {self.puts_at_once} jobs",
            "consume": f"run_worker_async, concurrency {CONCURRENCY}, listen_notify, delete_jobs = always",
            **await super().describe(),
        }


class ProcrastinateClient:
    """An app with its own pool."""

    def __init__(self, app: Any, queue: str) -> None:
        self._app = app
        self._queue = queue
        self._sink: Sink | None = None
        self._task = app.task(name=TASK, queue=queue)(self._work)

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Defer jobs in one statement."""
        await self._task.batch_defer_async(*({"body": body.decode()} for body in bodies))

    async def consume(self, sink: Sink, stop: asyncio.Event) -> None:
        """Run a worker; at the end it finishes its jobs."""
        self._sink = sink
        worker = asyncio.create_task(
            self._app.run_worker_async(
                queues=[self._queue],
                concurrency=CONCURRENCY,
                install_signal_handlers=False,
                delete_jobs="always",
            )
        )
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((worker, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            worker.cancel()
        outcome = (await asyncio.gather(worker, return_exceptions=True))[0]
        if isinstance(outcome, Exception):
            raise outcome

    async def close(self) -> None:
        """Disconnect."""
        await self._app.close_async()

    async def _work(self, body: str) -> None:
        assert self._sink is not None
        # The library acknowledges when this returns, without notice.
        self._sink.acknowledged((body.encode(),), time.monotonic())


def _app(url: str) -> Any:
    from procrastinate import App, PsycopgConnector

    return App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=CONCURRENCY + 2))


async def connect(address: Address, queue: str) -> Client:
    """Open a client."""
    app = _app(address["url"])
    client = ProcrastinateClient(app, queue)
    await app.open_async()
    return client
