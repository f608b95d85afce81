"""What few clients that take all they can get cost the others.

    python -m telesto.benchmarks.attacks --directory /var/tmp --rounds 5

Clients put messages at a steady pace while nothing else happens, and while connections of others hold frames
that are begun, requests whose answers they do not read, large answers, or reads that wait. The windows follow
each other in turn, from the moment at which an attack has sent all. Each attack's 99th percentile is set
beside that of the undisturbed window of its round, and that of a window with the same attack on another
middleware of the same machine and database: that one tells what the attack costs by the processors that it
uses, however fair the clients' middleware is.
"""

import argparse
import asyncio
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from telesto.benchmarks.tiers.machine import describe_machine
from telesto.benchmarks.tiers.service import HOST, running_database, running_middlewares
from telesto.benchmarks.tiers.usage import cpu_seconds
from telesto.client.aio.client import AsyncTelestoClient
from telesto.protocol import packets
from telesto.protocol.framing import FrameDecoder

CLIENTS: Final = 8
PACE: Final = 25.0
"""Puts of each client in a second."""
WINDOW_S: Final = 5.0
READY: Final = "ready"
UNDISTURBED: Final = "undisturbed"
_MIB: Final = 2**20
_ANSWER_BYTES: Final = 1 << 26


class Attacker:
    """A client on a raw socket that keeps to the protocol as far as it likes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect((HOST, port))
        self._decoder = FrameDecoder(_ANSWER_BYTES)
        self._ask(packets.Hello(packets.MAGIC, packets.PROTOCOL_MAJOR, 0, "attack", "0", _ANSWER_BYTES, []))
        name = f"attacker {os.urandom(8).hex()}"
        self._ask(packets.RegisterClient(name, packets.ClientMode.FULL, os.urandom(16)))

    def queue(self, messages: int, size: int) -> int:
        """Makes a queue with messages; returns its id."""
        name = f"attack {os.urandom(8).hex()}"
        queue_id: int = self._ask(packets.CreateQueue(1, [], name, packets.QueueSettings())).queue.queue_id
        for number in range(2, messages + 2):
            message = packets.NewMessage(5, 0, bytes(size), None)
            self._ask(packets.PutMessage(number, [number - 1], message, [queue_id]))
        return queue_id

    def send(self, data: bytes) -> None:
        """Sends what is taken, and no more."""
        self.socket.settimeout(2.0)
        with suppress(OSError):
            self.socket.sendall(data)

    def _ask(self, packet: Any) -> Any:
        self.socket.sendall(packet.encode(1))
        while not (frames := self._decoder.feed(self.socket.recv(1 << 16))):
            pass
        answer = packets.PACKETS[frames[0].method_id].decode(frames[0].payload)
        if isinstance(answer, packets.Error):
            raise SystemExit(f"the attacker was refused: {answer}")
        return answer


def begin_frames(port: int) -> list[Attacker]:
    """88 connections hold frames that are begun: 16 large ones, and small ones."""
    held = []
    for size in [16_500_000] * 16 + [65_000] * 72:
        held.append(Attacker(port))
        held[-1].send(struct.pack(">IHI", 16 * _MIB, packets.PutMessage.METHOD_ID, 9) + bytes(size))
    return held


def pipeline(port: int) -> list[Attacker]:
    """105 connections send 1,400 requests each and do not read."""
    queue_id = Attacker(port).queue(6, 1_000_000)
    held = [Attacker(port) for _ in range(105)]
    requests = b"".join(packets.GetMessages(queue_id, 0, 500).encode(number) for number in range(2, 1_402))
    for attacker in held:
        attacker.send(requests)
    return held


def pull_answers(port: int) -> list[Attacker]:
    """100 connections ask for 30 MB each and do not read."""
    queue_id = Attacker(port).queue(15, 1_000_000)
    held = [Attacker(port) for _ in range(100)]
    for attacker in held:
        attacker.send(
            b"".join(packets.GetMessages(queue_id, 0, 500).encode(number) for number in range(2, 32))
        )
    return held


def wait_for_messages(port: int) -> list[Attacker]:
    """10 connections have 1,024 reads each that wait."""
    held = []
    for _ in range(10):
        held.append(Attacker(port))
        queue_id = held[-1].queue(0, 0)
        reads = [
            packets.ReadMessage(number, [], queue_id, 0, packets.ReadMode.PRIORITY, 3_600_000, 1, 0)
            for number in range(2, 1_025)
        ]
        held[-1].send(b"".join(read.encode(read.number) for read in reads))
    return held


ATTACKS: Final[dict[str, Callable[[int], list[Attacker]]]] = {
    attack.__name__: attack for attack in (begin_frames, pipeline, pull_answers, wait_for_messages)
}


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m telesto.benchmarks.attacks", description=__doc__)
    parser.add_argument("--directory", default=tempfile.gettempdir())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window", type=float, default=WINDOW_S, help="seconds")
    parser.add_argument("--attack", choices=ATTACKS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.attack:
        held = ATTACKS[given.attack](given.port)
        print(READY, flush=True)
        sys.stdin.read()
        return 0 if held else 1
    with tempfile.TemporaryDirectory(prefix="telesto-attacks-", dir=given.directory) as name:
        directory = Path(name)
        os.chmod(directory, 0o711)
        with running_database(directory / "data") as url:
            asyncio.run(_measure(url, directory, given.rounds, given.window))
    return 0


@dataclass(frozen=True, slots=True)
class Window:
    """What was seen in one window.

    Attributes:
        taken: how long each put took, in seconds.
        cpu_s: processor time of the clients' middleware.
    """

    taken: list[float]
    cpu_s: float

    def percentile(self, part: float) -> float:
        """In seconds."""
        return sorted(self.taken)[int(part * (len(self.taken) - 1))]


async def _measure(url: str, directory: Path, rounds: int, window_s: float) -> None:
    print("\n".join(f"{name}: {value}" for name, value in describe_machine().items()))
    found: dict[tuple[str, int], list[Window]] = {(UNDISTURBED, 0): []}
    found |= {(name, target): [] for name in ATTACKS for target in (0, 1)}
    async with running_middlewares(url, directory, 2) as middlewares:
        url = middlewares.urls[0]
        clients = [AsyncTelestoClient(url, name=f"other {number}") for number in range(CLIENTS)]
        for client in clients:
            await client.connect()
        queue = await clients[0].create_queue("others")
        await _window(clients, queue.queue_id, window_s)
        for _ in range(rounds):
            for (name, target), windows in found.items():
                attack = None if name == UNDISTURBED else await _begin(name, middlewares.ports[target])
                used = cpu_seconds(middlewares.pids[:1])
                taken = await _window(clients, queue.queue_id, window_s)
                windows.append(Window(taken, cpu_seconds(middlewares.pids[:1]) - used))
                if attack is not None:
                    attack.communicate()
        for client in clients:
            await client.close()
    calm = found[UNDISTURBED, 0]
    _print(UNDISTURBED, calm, {})
    for name in ATTACKS:
        here, elsewhere = found[name, 0], found[name, 1]
        _print(name, here, {"undisturbed": calm, "elsewhere": elsewhere})
        _print("  elsewhere", elsewhere, {"undisturbed": calm})


def _print(name: str, windows: list[Window], others: Mapping[str, list[Window]]) -> None:
    """Prints medians over the rounds, and ratios of the 99th percentiles within each."""
    medians, tails = (
        1000 * statistics.median(window.percentile(part) for window in windows) for part in (0.5, 0.99)
    )
    line = f"{name:18} p50 {medians:6.2f} ms  p99 {tails:6.2f} ms"
    line += f"  cpu {statistics.median(window.cpu_s for window in windows):5.2f} s"
    for beside, compared in others.items():
        ratios = [
            window.percentile(0.99) / other.percentile(0.99)
            for window, other in zip(windows, compared, strict=True)
        ]
        median = statistics.median(ratios)
        line += f"  p99 beside {beside} {median:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    print(line)


async def _begin(name: str, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", __spec__.name, "--attack", name, "--port", str(port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert process.stdout is not None
    await asyncio.to_thread(process.stdout.readline)
    return process


async def _window(clients: list[AsyncTelestoClient], queue_id: int, window_s: float) -> list[float]:
    """How long puts took, in seconds; sent at their times, however long those before took."""
    taken: list[float] = []

    async def put(client: AsyncTelestoClient) -> None:
        begun = time.perf_counter()
        await client.put_message(queue_id, b"x" * 100)
        taken.append(time.perf_counter() - begun)

    async def go(client: AsyncTelestoClient, offset: float) -> None:
        begun, puts = time.perf_counter(), []
        for number in range(int(window_s * PACE)):
            await asyncio.sleep(begun + offset + number / PACE - time.perf_counter())
            puts.append(asyncio.create_task(put(client)))
        await asyncio.gather(*puts)

    await asyncio.gather(*(go(client, number / PACE / CLIENTS) for number, client in enumerate(clients)))
    return taken


if __name__ == "__main__":
    sys.exit(main())
