"""Idle connections: how much memory a middleware needs for clients that do nothing."""

import asyncio
from dataclasses import asdict, dataclass
from typing import Final

from telesto.benchmarks.load import CONNECTING_AT_ONCE
from telesto.benchmarks.service import Middlewares
from telesto.benchmarks.usage import raise_open_files
from telesto.benchmarks.worker import Gate, Plan, Result, Worker, run_worker
from telesto.client import AsyncTelestoClient

SPARE_FILES: Final = 256
"""Open files that a process needs besides its connections."""
SETTLE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class IdlePlan:
    """How many clients connect, where, and what their names begin with."""

    urls: list[str]
    connections: int
    names: str


@dataclass(frozen=True, slots=True)
class Idle:
    """Resident memory of a middleware, in bytes, without and with the connections."""

    wanted: int
    connections: int
    open_files: int
    bytes_before: int
    bytes_with: int


async def hold_connections(raw: Plan, gate: Gate) -> Result:
    """Carry out an `IdlePlan`: connect, wait for the gate, leave."""
    plan = IdlePlan(**raw)
    some_at_a_time = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def open_one(index: int) -> AsyncTelestoClient:
        client = AsyncTelestoClient(plan.urls[index % len(plan.urls)])
        async with some_at_a_time:
            await client.connect(name=f"{plan.names}-{index}", existing="use")
        return client

    clients = await asyncio.gather(*(open_one(index) for index in range(plan.connections)))
    await gate.wait()
    await asyncio.gather(*(client.close() for client in clients))
    return {"connections": len(clients)}


def connections_allowed(wanted: int) -> tuple[int, int]:
    """Raise the limit of open files; return how many connections it allows, and the limit.

    Must be called before the middlewares start, for they inherit the limit.
    """
    limit = raise_open_files(wanted + SPARE_FILES)
    return min(wanted, limit - SPARE_FILES), limit


async def measure_idle(middlewares: Middlewares, wanted: int) -> Idle:
    """Connect as many clients as the limit allows; measure while they are idle."""
    connections, open_files = connections_allowed(wanted)
    before = middlewares.resident_bytes()
    plan = IdlePlan(middlewares.urls, connections, "idle")
    worker = await Worker.spawn("telesto.benchmarks.idle", asdict(plan))
    try:
        await worker.ready()
        await asyncio.sleep(SETTLE_S)
        during = middlewares.resident_bytes()
        await worker.begin(0.0)
        await worker.result(SETTLE_S)
    finally:
        await worker.stop()
    return Idle(wanted, connections, open_files, before, during)


if __name__ == "__main__":
    run_worker(hold_connections)
