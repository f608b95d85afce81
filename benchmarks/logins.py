"""What many logins at once cost those who put and get meanwhile.

    python -m telesto.benchmarks.logins --directory /var/tmp --rounds 5

One client puts a message and gets it, again and again, while another process keeps so many logins under way.
It has the lowest priority, because it stands for other machines. Windows with logins, with connections that
only say hello, and with neither follow each other in turn.
"""

import argparse
import asyncio
import base64
import hashlib
import hmac
import multiprocessing
import os
import secrets
import statistics
import struct
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import psycopg

from telesto.benchmarks.rights import PASSWORD, VERIFIER, cpu_seconds
from telesto.benchmarks.tiers.machine import describe_machine
from telesto.benchmarks.tiers.service import running_database, running_middlewares
from telesto.client.aio.client import AsyncTelestoClient
from telesto.protocol import packets
from telesto.protocol.packet import Packet

USER: Final = (
    "INSERT INTO telesto.users (name, verifier, configure, put, get) VALUES ('user', %s, '{*}', '{*}', '{*}')"
)
MECHANISM: Final = "SCRAM-SHA-256"
KINDS: Final = ("nothing", "hellos", "logins")
WARM_UP_S: Final = 1.0
_HEAD: Final = struct.Struct(">IHI")


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m telesto.benchmarks.logins", description=__doc__)
    parser.add_argument("--directory", default=tempfile.gettempdir())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each window")
    parser.add_argument("--logins", type=int, default=200, help="under way at a time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="telesto-logins-", dir=given.directory) as name:
        directory = Path(name)
        os.chmod(directory, 0o711)
        with running_database(directory / "data") as url:
            with psycopg.connect(url) as connection:
                connection.execute(USER, (VERIFIER,))
            asyncio.run(_measure(url, directory, given.rounds, given.seconds, given.logins))
    return 0


async def _measure(url: str, directory: Path, rounds: int, seconds: float, logins: int) -> None:
    print("\n".join(f"{name}: {value}" for name, value in describe_machine().items()))
    latencies: dict[str, list[float]] = {kind: [] for kind in KINDS}
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    cpu: dict[str, list[float]] = {kind: [] for kind in KINDS}
    async with running_middlewares(url, directory, 1) as middlewares:
        address = middlewares.urls[0].partition("://")[2]
        async with AsyncTelestoClient(f"telesto://user:{PASSWORD}@{address}") as client:
            queue = await client.declare_queue("measured")
            for number in range(rounds * len(KINDS)):
                kind = KINDS[(number + number // len(KINDS)) % len(KINDS)]
                with _Flood(address, logins, kind) as flood:
                    await asyncio.sleep(WARM_UP_S)
                    before, flooded = cpu_seconds(middlewares.pids[0]), await flood.count()
                    until = time.monotonic() + seconds
                    while time.monotonic() < until:
                        begun = time.monotonic()
                        await queue.put(b"x" * 200)
                        latencies[kind].append(time.monotonic() - begun)
                        await queue.get()
                    flooded = await flood.count() - flooded
                    rates[kind].append(flooded / seconds)
                    cpu[kind].append((cpu_seconds(middlewares.pids[0]) - before) / seconds)
    for kind in KINDS:
        put = sorted(latencies[kind])
        print(
            f"{kind}: {statistics.mean(rates[kind]):,.0f}/s, {len(put)} puts, "
            f"median {1e3 * put[len(put) // 2]:.2f} ms, p99 {1e3 * put[len(put) * 99 // 100]:.2f} ms, "
            f"longest {1e3 * put[-1]:.1f} ms, {statistics.mean(cpu[kind]):.2f} processors of the middleware"
        )


class _Flood:
    """A process that keeps logins, or connections that only say hello, under way."""

    def __init__(self, address: str, connections: int, kind: str) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_run_flood, args=(address, connections, kind, theirs)
        )

    def __enter__(self) -> "_Flood":
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    async def count(self) -> int:
        """Return how many are done."""
        self._pipe.send(None)
        done: int = await asyncio.to_thread(self._pipe.recv)
        return done


def _run_flood(address: str, connections: int, kind: str, pipe: Connection) -> None:
    os.nice(19)  # it stands for other machines
    asyncio.run(_flood(address, connections if kind != "nothing" else 0, kind == "logins", pipe))


async def _flood(address: str, connections: int, log_in: bool, pipe: Connection) -> None:
    host, _, port = address.rpartition(":")
    done = 0

    async def one() -> None:
        nonlocal done
        while True:
            reader, writer = await asyncio.open_connection(host, int(port))
            await _ask(reader, writer, packets.Hello(packets.MAGIC, 1, 0, "bench", "1", 1 << 20, []))
            if log_in:
                await _log_in(reader, writer)
            writer.transport.abort()
            done += 1

    tasks = [asyncio.create_task(one()) for _ in range(connections)]
    while True:
        await asyncio.to_thread(pipe.recv)
        failed = [task for task in tasks if task.done()]
        if failed:
            await asyncio.gather(*failed)
        pipe.send(done)


async def _log_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Log in by SCRAM. The costly key is made once, so that this process does not use up the machine."""
    first = f"n=user,r={secrets.token_urlsafe(18)}"
    challenge = await _ask(reader, writer, packets.Authenticate(MECHANISM, f"n,,{first}".encode()))
    server_first = challenge.data.decode()
    nonce, salt, iterations = (part[2:] for part in server_first.split(","))
    key = hmac.digest(_salted(salt, int(iterations)), b"Client Key", "sha256")
    final = f"c=biws,r={nonce}"
    signed = f"{first},{server_first},{final}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = base64.b64encode(bytes(one ^ other for one, other in zip(key, signature, strict=True))).decode()
    answer = await _ask(reader, writer, packets.Authenticate(MECHANISM, f"{final},p={proof}".encode()))
    assert answer.done


_keys: dict[str, bytes] = {}


def _salted(salt: str, iterations: int) -> bytes:
    if salt not in _keys:
        _keys[salt] = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), base64.b64decode(salt), iterations)
    return _keys[salt]


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, packet: Packet) -> Any:
    writer.write(packet.encode(1))
    length, method_id, _ = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    answer = packets.PACKETS[method_id].decode(await reader.readexactly(length - _HEAD.size + 4))
    if isinstance(answer, packets.Error):
        raise RuntimeError(answer.details)
    return answer


if __name__ == "__main__":
    sys.exit(main())
