"""Sends what nobody would send to a service, and looks whether it stays well.

``python -m tests.fuzz.run --minutes 10 --seed 1``

What must hold, whatever is sent: the middleware lives, its memory is bounded, it logs no error, it answers no
INTERNAL_ERROR and nothing that is not of the protocol, and clients that behave are served meanwhile. Half of
the time the service has users: what is sent then, after a login or instead of one, does nothing to clients of
another user.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
from scramp import ScramClient, ScramException

from telesto.client import AsyncTelestoClient, ClientOptions
from telesto.db.embedded.server import running_url
from telesto.middleware.security.login import make_verifier
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode, TelestoError
from telesto.protocol.framing import FrameDecoder

from .frames import Mill

#: What to put before a command so that it does not outlive this process.
_STARTED = [sys.executable, "-I", "-S", str(Path(__file__).parents[1] / "started.py")]
#: Connections that send at a time.
_ATTACKERS = 4
_REQUESTS = 40
#: How long an attacker waits for answers before it goes on, in seconds.
_PAUSE_S = 0.05
#: How long a client that behaves may take to put and get one message, in seconds; the machine may be busy.
_ROUND_S = 30.0
#: How long an attacker waits for a step of its login, in seconds; a spoiled one is answered late.
_LOGIN_S = 3.0
#: By how much the middleware's memory may grow, in bytes: the bounds of its settings below, and what Python
#: keeps for itself.
_GROWTH_MAX = 200 << 20
_SETTINGS = {"TELESTO_BUDGET_BYTES": str(32 << 20), "TELESTO_BUDGET_UNSENT_BYTES": str(32 << 20)}
_PASSWORD = "hunter2"
_USERS = """
INSERT INTO telesto.users (name, verifier, configure, put, get, admin, clients)
SELECT name, $1, ARRAY[pattern], ARRAY[pattern], ARRAY[pattern], ARRAY[pattern], ARRAY[pattern]
FROM (VALUES ('fuzzer', 'fuzz-*'), ('behaving', 'behaving*')) AS made (name, pattern)
"""
#: What attackers may do to a client that behaves, as long as there are no users: they delete its queue, and
#: send what it has under its id.
_MEDDLED = {
    ErrorCode.QUEUE_NOT_EXISTING,
    ErrorCode.CLIENT_NOT_EXISTING,
    ErrorCode.SESSION_FENCED,
    ErrorCode.QUEUE_FULL,
    ErrorCode.OVERLOADED,
}


@dataclass
class Findings:
    """What was sent and what came of it.

    Attributes:
        failures: what must not be; each with the frames before it, for a test of its kind.
        sent: how many frames were sent.
        answers: how often each packet or error came.
        rounds: how often a client that behaves was served, and how often it was meddled with.
    """

    failures: list[str] = field(default_factory=list)
    sent: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    rounds: Counter[str] = field(default_factory=Counter)


class Attacker:
    """One connection after the other."""

    def __init__(
        self, address: tuple[str, int], chance: random.Random, findings: Findings, *, users: bool
    ) -> None:
        self._address = address
        self._users = users
        self._login_answers: asyncio.Queue[packets.Packet] = asyncio.Queue()
        self._chance = chance
        self._findings = findings
        self._mill = Mill(chance)
        self._sent: deque[bytes] = deque(maxlen=12)

    async def attack_until(self, until: float) -> None:
        """Attacks until a time of the monotonic clock."""
        while time.monotonic() < until:
            reader, writer = await asyncio.open_connection(*self._address)
            reading = asyncio.create_task(self._read(reader))
            with suppress(ConnectionError):
                await self._converse(writer)
            if self._chance.random() < 0.5:
                writer.transport.abort()
            else:
                writer.close()
            with suppress(ConnectionError, TimeoutError):
                await asyncio.wait_for(reading, _ROUND_S)

    async def _converse(self, writer: asyncio.StreamWriter) -> None:
        chance, number = self._chance, 2
        opening = self._opening()
        if self._users and len(opening) > 1 and chance.random() < 0.8:
            await self._send(writer, opening.pop(0))
            await self._log_in(writer)
        for frame in opening:
            await self._send(writer, frame)
        await asyncio.sleep(_PAUSE_S)
        for packet_id in range(4, 4 + chance.randint(1, _REQUESTS)):
            frame, takes = self._mill.request(packet_id, number)
            number += takes
            await self._send(writer, frame)
            if chance.random() < 0.2:
                await asyncio.sleep(chance.choice([0, _PAUSE_S]))
        await asyncio.sleep(_PAUSE_S)

    async def _log_in(self, writer: asyncio.StreamWriter) -> None:
        """Logs in, mostly; or spoils one of the two messages."""
        spoiled = self._chance.randrange(12)
        scram = ScramClient(["SCRAM-SHA-256"], "fuzzer", _PASSWORD)
        self._login_answers = asyncio.Queue()
        for step, say in enumerate((scram.get_client_first, scram.get_client_final)):
            data = say().encode()
            if spoiled == step:
                data = self._mill.bytes()
            await self._send(writer, packets.Authenticate("SCRAM-SHA-256", data).encode(1))
            try:
                answer = await asyncio.wait_for(self._login_answers.get(), _LOGIN_S)
                if step == 0 and isinstance(answer, packets.AuthenticateResponse):
                    scram.set_server_first(answer.data.decode())
                    continue
            except (TimeoutError, ValueError, ScramException):
                pass
            return

    def _opening(self) -> list[bytes]:
        """The handshake: as it should be, or not."""
        chance = self._chance
        hello = packets.Hello(
            packets.MAGIC, packets.PROTOCOL_MAJOR, packets.PROTOCOL_MINOR, "fuzz", "1", 1 << 20, []
        ).encode(1)
        name, token = f"fuzz-{chance.randrange(2**63)}", chance.randbytes(16)
        mode = packets.ClientMode.FULL
        register = packets.RegisterClient(name, mode, token, attempt=1, temporary=True).encode(2)
        match chance.randrange(8):
            case 0:
                return [self._mill.bytes()]
            case 1:
                return [hello, self._mill.bytes()]
            case 2:
                return [hello, *(self._mill.request(2, 1)[0] for _ in range(3)), register]
            case _:
                queue = packets.CreateQueue(1, [], name, packets.QueueSettings()).encode(3)
                return [hello, register, queue]

    async def _send(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        self._sent.append(frame)
        self._findings.sent += 1
        cut = self._chance.randrange(len(frame) + 1) if self._chance.random() < 0.2 else 0
        for part in (frame[:cut], frame[cut:]):
            if part:
                writer.write(part)
                await writer.drain()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        decoder = FrameDecoder(packets.MAX_FRAME_DEFAULT)
        while data := await reader.read(65_536):
            for frame in decoder.feed(data):
                packet_class = packets.PACKETS.get(frame.method_id)
                if packet_class is None:
                    self._fail(f"an answer with the unknown method {frame.method_id:#x}")
                    continue
                try:
                    answer = packet_class.decode(frame.payload)
                except TelestoError as error:
                    self._fail(f"an answer that is not of the protocol: {error}")
                    continue
                if isinstance(answer, packets.AuthenticateResponse):
                    self._login_answers.put_nowait(answer)
                self._learn(answer)

    def _learn(self, answer: packets.Packet) -> None:
        name = type(answer).__name__
        if isinstance(answer, packets.Error):
            name = ErrorCode(answer.code).name if answer.code in set(ErrorCode) else str(answer.code)
            if answer.code == ErrorCode.INTERNAL_ERROR:
                self._fail(f"INTERNAL_ERROR: {answer.details}")
        self._findings.answers[name] += 1
        for part in (answer, getattr(answer, "queue", None), *(getattr(answer, "results", None) or [])):
            for slot in ("queue_id", "client_id", "message_id", "consumer_id", "session"):
                value = getattr(part, slot, None)
                if isinstance(value, int) and value:
                    self._mill.ids[slot] = [*self._mill.ids.get(slot, ())[-20:], value]

    def _fail(self, what: str) -> None:
        frames = "\n".join(
            frame.hex() if len(frame) < 2_000 else f"{frame[:200].hex()}..." for frame in self._sent
        )
        self._findings.failures.append(
            f"{what}\nafter these frames, of which the last ones may not count:\n{frames}"
        )


async def behave_until(until: float, url: str, findings: Findings, *, users: bool) -> None:
    """Puts and gets messages as clients do, each time as another client and in another queue."""
    meddled = {ErrorCode.OVERLOADED} if users else _MEDDLED
    options = ClientOptions(call_timeout=_ROUND_S)
    while time.monotonic() < until:
        try:
            async with asyncio.timeout(2 * _ROUND_S), AsyncTelestoClient(url, options=options) as client:
                queue = await client.create_queue(f"behaving {time.monotonic_ns()}")
                body = b"%d" % findings.rounds.total()
                await queue.put(body)
                message = await queue.get(timeout=_ROUND_S)
                if message is None or message.body != body:
                    findings.failures.append(f"put {body!r}, got {message!r}")
                await queue.delete()
                findings.rounds["served"] += 1
        except TelestoError as error:
            if error.code in meddled:
                findings.rounds["meddled with"] += 1
            else:
                findings.failures.append(f"a client that behaves got {error!r}")
        except TimeoutError:
            findings.failures.append("a client that behaves was not served in time")
        await asyncio.sleep(0.2)


def memory_of(pid: int) -> int:
    """Returns the memory of a process, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) << 10


async def watch_until(until: float, pid: int, findings: Findings) -> None:
    """Looks at the memory of the middleware."""
    begun = memory_of(pid)
    while time.monotonic() < until:
        await asyncio.sleep(0.5)
        if (grown := memory_of(pid) - begun) > _GROWTH_MAX:
            findings.failures.append(f"the middleware has grown by {grown >> 20} MiB")
            return


def complaints(log: str) -> list[str]:
    """Returns what the service logged that must not be, whatever clients send."""
    return [
        line for line in log.splitlines() if "Traceback" in line or "[error" in line or "[critical" in line
    ]


async def fuzz(
    url: str, pid: int, seconds: float, seed: int, findings: Findings, *, users: bool = False
) -> None:
    """Attacks a service for so long; with ``users``, as one of them."""
    host, _, port = url.rpartition("/")[2].rpartition("@")[2].rpartition(":")
    until = time.monotonic() + seconds
    attackers = [
        Attacker((host, int(port)), random.Random(f"{seed} {number}"), findings, users=users)
        for number in range(_ATTACKERS)
    ]
    await asyncio.gather(
        *(attacker.attack_until(until) for attacker in attackers),
        behave_until(until, url, findings, users=users),
        watch_until(until, pid, findings),
    )


def attack(directory: Path, seconds: float, seed: int) -> Findings:
    """Starts a service, attacks it, and stops it."""
    command = [
        *(sys.executable, "-m", "telesto.cli.main"),
        *("serve", "--data-dir", str(directory / "data"), "--port", "0", "--json"),
    ]
    log = directory / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*_STARTED, *command], stdout=subprocess.PIPE, stderr=errors, env=os.environ | _SETTINGS
        )
    findings = Findings()
    try:
        assert process.stdout is not None
        if not (said := process.stdout.readline()):
            raise RuntimeError(f"the service did not start: {log.read_text(errors='replace')[-2_000:]}")
        service = json.loads(said)
        asyncio.run(_attack(directory, service, seconds, seed, findings))
        if process.poll() is not None:
            findings.failures.append(f"the service ended with {process.returncode}")
    finally:
        process.terminate()
        try:
            process.communicate(timeout=_ROUND_S)
        except subprocess.TimeoutExpired:
            findings.failures.append("the service did not stop")
            process.kill()
            process.communicate()
    findings.failures += complaints(log.read_text(errors="replace"))
    return findings


async def _attack(
    directory: Path, service: dict[str, Any], seconds: float, seed: int, findings: Findings
) -> None:
    url, pid = service["url"], service["pid"]
    await fuzz(url, pid, seconds / 2, seed, findings)
    database_url = running_url(directory / "data")
    assert database_url is not None
    connection = await asyncpg.connect(database_url)
    await connection.execute(_USERS, make_verifier(_PASSWORD))
    await connection.close()
    with_user = url.replace("://", f"://behaving:{_PASSWORD}@")
    # Until the service knows of them. Logins that fail keep out who has not logged in before.
    for name in ("behaving", "fuzzer"):
        async with asyncio.timeout(_ROUND_S):
            await _log_in_once(with_user.replace("behaving", name))
    await fuzz(with_user, pid, seconds / 2, seed, findings, users=True)


async def _log_in_once(url: str) -> None:
    while True:
        try:
            async with AsyncTelestoClient(url) as client:
                await client.connect()
            return
        except TelestoError:
            await asyncio.sleep(_PAUSE_S)


def main() -> int:
    """Reads the command line, attacks, and reports."""
    parser = argparse.ArgumentParser(description="Fuzz a service of its own.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="by default another one each time")
    chosen = parser.parse_args()
    seed = random.randrange(10**6) if chosen.seed is None else chosen.seed
    print(f"seed {seed}, {chosen.minutes:g} minutes", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        findings = attack(Path(directory), chosen.minutes * 60, seed)
    print(f"{findings.sent} frames sent; clients that behave: {dict(findings.rounds)}")
    for name, count in findings.answers.most_common():
        print(f"{count:8} {name}")
    for failure in findings.failures[:20]:
        print(f"\nFAILED: {failure}")
    print(f"\n{len(findings.failures)} failures")
    return 1 if findings.failures else 0


if __name__ == "__main__":
    sys.exit(main())
