"""What the check of a user's rights costs a middleware, in CPU time per message.

    python -m telesto.benchmarks.rights --directory /var/tmp --rounds 20

A user whose rights are checked and an administrator, whose are not, put and get messages through the same
middleware. Their windows follow each other in turn, and the order changes with each round. The ratio is that
of the CPU times of the middleware within a round.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import psycopg

from telesto.benchmarks.tiers.machine import describe_machine
from telesto.benchmarks.tiers.service import running_database, running_middlewares
from telesto.client.aio.client import AsyncTelestoClient

CALLERS: Final = 64
"""Calls that are under way at a time."""
PASSWORD: Final = "rights"
# Of PASSWORD, as PostgreSQL keeps it; 16,384 iterations.
VERIFIER: Final = (
    "SCRAM-SHA-256$16384:d31y2FUydO5QiWj1pZj3Fg==$zG/gVnu+oFvF5RPjO0JDrLLkHhEeup"
    "djOQWVg0HQcKo=:eGZMh4FEErTN00n7CEYPpzcVNV8btmVmCfaCYTnkrOI="
)
USERS: Final = """
INSERT INTO telesto.users (name, verifier, administrator, configure, put, get, clients) VALUES
    ('checked', %(verifier)s, false, '{measured-*}', '{other-*,measured-*}', '{other-*,measured-*}', '{}'),
    ('unchecked', %(verifier)s, true, '{}', '{}', '{}', '{}')
"""
WORK: Final = ("put", "get")


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m telesto.benchmarks.rights", description=__doc__)
    parser.add_argument("--directory", default=tempfile.gettempdir())
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--messages", type=int, default=6_400, help="of each window")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="telesto-rights-", dir=given.directory) as name:
        directory = Path(name)
        os.chmod(directory, 0o711)
        with running_database(directory / "data") as url:
            with psycopg.connect(url) as connection:
                connection.execute(USERS, {"verifier": VERIFIER})
            asyncio.run(_measure(url, directory, given.rounds, given.messages))
    return 0


async def _measure(url: str, directory: Path, rounds: int, messages: int) -> None:
    print("\n".join(f"{name}: {value}" for name, value in describe_machine().items()))
    found: dict[tuple[str, str], list[float]] = {
        (work, user): [] for work in WORK for user in ("checked", "unchecked")
    }
    async with running_middlewares(url, directory, 1) as middlewares:
        address = middlewares.urls[0].partition("://")[2]
        clients = {
            user: AsyncTelestoClient(f"telesto://{user}:{PASSWORD}@{address}")
            for user in ("checked", "unchecked")
        }
        for number in range(rounds + 1):
            for user in sorted(clients, reverse=bool(number % 2)):
                client = clients[user]
                queue = await client.declare_queue(f"measured-{user}")
                for work in WORK:
                    call = partial(queue.put, b"x" * 200) if work == "put" else queue.get
                    before = cpu_seconds(middlewares.pids[0])
                    await asyncio.gather(*(_repeat(call, messages // CALLERS) for _ in range(CALLERS)))
                    used = cpu_seconds(middlewares.pids[0]) - before
                    if number:  # the first one warms up
                        found[work, user].append(1e6 * used / messages)
        for client in clients.values():
            await client.close()
    for work in WORK:
        checked, unchecked = found[work, "checked"], found[work, "unchecked"]
        ratios = [one / other for one, other in zip(checked, unchecked, strict=True)]
        print(
            f"{work}: {statistics.median(checked):.1f} us of the middleware's CPU with rights checked, "
            f"{statistics.median(unchecked):.1f} without; median of the ratios "
            f"{statistics.median(ratios):.3f}, ratio of the means {sum(checked) / sum(unchecked):.3f}"
        )


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process by its clock: the ticks of /proc are too coarse for a window."""
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid makes it on Linux


async def _repeat(call: Callable[[], Awaitable[object]], count: int) -> None:
    for _ in range(count):
        await call()


if __name__ == "__main__":
    sys.exit(main())
