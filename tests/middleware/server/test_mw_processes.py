"""Real processes: one, and several on one port."""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import asyncpg
import psycopg
import pytest
import trustme

from logins import ScramLogin, add_user
from started import STARTED
from telesto.middleware.common import logs
from telesto.middleware.security.login import LoginLimits
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from wire import PATIENCE_S, Wire, until

START_S = 60.0


@asynccontextmanager
async def running(
    database_url: str, *arguments: str, log: Path = Path(os.devnull), ulimit: str = "", **settings: object
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """Runs ``python -m telesto.middleware`` on a free port; gives the process and the port.

    ``ulimit`` is what the shell's command of this name is given before.
    """
    limited = ["sh", "-c", f'ulimit {ulimit} && exec "$@"', "sh"] if ulimit else []
    settings = {"goaway_grace_s": 0.05, "linger_s": 0.2} | settings
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TELESTO_")}
    with reserved_port() as port, log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *limited,
            *STARTED,
            sys.executable,
            "-m",
            "telesto.middleware",
            "--port",
            str(port),
            "--database-url",
            database_url,
            *arguments,
            env=environment | {f"TELESTO_{name.upper()}": str(value) for name, value in settings.items()},
            stderr=errors,
        )
        try:
            yield process, port
        finally:
            if process.returncode is None:
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), START_S)
            finally:
                if process.returncode is None:
                    process.kill()


@contextmanager
def reserved_port() -> Iterator[int]:
    """Gives a port that the system gives to nothing else; a middleware that is told to may listen there."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


async def until_serving(port: int) -> Wire:
    wires: list[Wire] = []

    async def opened() -> bool:
        with suppress(OSError):
            wires.append(await Wire.open(("127.0.0.1", port)))
        return bool(wires)

    await until(opened, START_S)
    return wires[0]


async def test_a_process_serves_until_it_is_told_to_stop(database_url: str) -> None:
    async with running(database_url) as (process, port):
        wire = await until_serving(port)
        await wire.register()
        queue_id = await wire.create_queue()
        assert await wire.put_one(queue_id)
        process.send_signal(signal.SIGTERM)
        goodbye = await asyncio.wait_for(wire.unasked.get(), PATIENCE_S)
        assert isinstance(goodbye, packets.GoAway)
        await wire.closed()
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
        await wire.close()


async def test_new_certificates_while_the_processes_start_end_none_of_them(
    database_url: str, tmp_path: Path
) -> None:
    issued = trustme.CA().issue_cert("localhost")
    certificate, key, log = tmp_path / "server.pem", tmp_path / "server.key", tmp_path / "log"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    files = {"tls_certificate": certificate, "tls_key": key}
    async with running(database_url, "--processes", "2", log=log, **files) as (process, port):
        await until(lambda: child_pids(process.pid), START_S)

        async def served() -> bool:
            process.send_signal(signal.SIGHUP)
            await asyncio.sleep(0.03)  # more often they would do nothing else
            return log.read_text().count("certificate_read") >= 8

        await until(served, START_S)
        await (await until_serving(port)).close()
    assert "process_ended" not in log.read_text()


async def test_several_processes_share_a_port_and_come_back(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    living = "SELECT array_agg(middleware_id ORDER BY middleware_id) FROM telesto.middlewares"
    async with running(database_url, "--processes", "2") as (process, port):
        await (await until_serving(port)).close()
        await until(lambda: connection.fetchval("SELECT count(*) = 2 FROM telesto.middlewares"))
        before = await connection.fetchval(living)
        met: set[int] = set()

        async def meet() -> bool:
            wire = await Wire.open(("127.0.0.1", port))
            met.add((await wire.hello()).middleware_id)
            await wire.close()
            return met == set(before)

        await until(meet)
        children = await child_pids(process.pid)
        os.kill(children[0], signal.SIGKILL)

        async def restarted() -> bool:
            return len(set(await connection.fetchval(living)) - set(before)) == 1

        await until(restarted)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    # Those that were told to stop have signed off, the killed one could not; where its successor took long to
    # start, the others have forgotten it.
    left = set(await connection.fetchval(living) or ())
    assert len(left) <= 1
    assert left <= set(before)
    await connection.close()


async def test_each_line_of_the_log_names_its_process_and_middleware(
    database_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def both_serve() -> bool:
        return [line["event"] for line in lines()].count("serving") == 3

    async with running(database_url, "--processes", "2", log=log, log_json=True) as (process, _):
        await until(both_serve, 2 * START_S)
        connection = await asyncpg.connect(database_url)
        living = await connection.fetch("SELECT middleware_id FROM telesto.middlewares")
        await connection.close()
        children = await child_pids(process.pid)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    by_pid: dict[int, list[dict[str, Any]]] = {}
    for line in lines():
        by_pid.setdefault(line["pid"], []).append(line)
    assert set(by_pid) == {process.pid, *children}
    assert not any("middleware" in line for line in by_pid.pop(process.pid))
    names = set()
    for own in by_pid.values():
        events = [line["event"] for line in own]
        (name,) = {line["middleware"] for line in own[events.index("registered") :]}
        names.add(name)
        assert events[-1] == "stopped"
    assert names == {row["middleware_id"] for row in living}


@pytest.mark.parametrize("as_json", [True, False])
def test_what_libraries_log_comes_in_the_same_form(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    logs.configure("info", json=as_json)
    logging.getLogger("asyncio").error("Task %s was lost", 3)
    logging.getLogger("asyncio").info("not worth a line")
    (line,) = capsys.readouterr().err.splitlines()
    if as_json:
        told = json.loads(line)
        assert told.pop("timestamp")
        told.pop("middleware", None)
        assert told == {"event": "Task 3 was lost", "level": "error", "part": "asyncio", "pid": os.getpid()}
    else:
        assert "[error    ] Task 3 was lost" in line
        assert f"pid={os.getpid()}" in line


async def test_each_process_lets_users_log_in_and_counts_failures_by_itself(database_url: str) -> None:
    add_user(database_url, "alice")
    tries = LoginLimits.FREE + 5
    async with running(database_url, "--processes", "2") as (_, port):
        await (await until_serving(port)).close()
        wires: dict[int, list[Wire]] = {}

        async def met_often() -> bool:
            wire = await Wire.open(("127.0.0.1", port))
            wires.setdefault((await wire.hello()).middleware_id, []).append(wire)
            return len(wires) == 2 and min(map(len, wires.values())) > tries

        await until(met_often)
        for own in wires.values():
            assert isinstance(await ScramLogin(own[0], "alice").whole(), packets.AuthenticateResponse)
        for own in wires.values():
            logins = [ScramLogin(wire, "bob", "wrong") for wire in own[1 : tries + 1]]
            challenges = [await login.begin() for login in logins]
            answers = await asyncio.gather(*map(ScramLogin.prove, logins, challenges))
            codes = Counter(answer.code for answer in answers)
            assert codes == {ErrorCode.AUTHENTICATION_FAILED: 6, ErrorCode.OVERLOADED: 4}
        # A change is known to all of them.
        with psycopg.connect(database_url, autocommit=True) as database:
            database.execute("UPDATE telesto.users SET enabled = false")
        for own in wires.values():
            await own[0].closed()
        for wire in chain(*wires.values()):
            await wire.close()


def test_a_line_is_written_at_once_so_that_those_of_several_processes_stay_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []
    monkeypatch.setattr(sys, "stderr", Mock(write=written.append, isatty=lambda: False))
    logs.configure("info", json=True)
    logs.logger("test").info("from here")
    logging.getLogger("asyncio").error("from a library")
    assert [json.loads(line)["event"] for line in written] == ["from here", "from a library"]
    assert all(line.endswith("}\n") for line in written)


async def test_processes_end_with_their_parent_however_it_ends(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    async with running(database_url, "--processes", "2") as (process, port):
        await (await until_serving(port)).close()
        await until(lambda: connection.fetchval("SELECT count(*) = 2 FROM telesto.middlewares"))
        children = await child_pids(process.pid)
        assert len(children) == 2
        process.kill()
        await process.wait()

        async def all_gone() -> bool:
            return not set(children) & {int(name) for name in os.listdir("/proc") if name.isdigit()}

        await until(all_gone)
        # In order: they have signed off.
        assert await connection.fetchval("SELECT count(*) FROM telesto.middlewares") == 0
    await connection.close()


async def child_pids(pid: int) -> list[int]:
    """The serving processes of a parent, without its resource tracker."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and is_server_of(int(name), pid):
            found.append(int(name))
    return sorted(found)


def is_server_of(pid: int, parent: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            if int(file.read().rsplit(")", 1)[1].split()[1]) != parent:
                return False
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"spawn_main" in file.read()
    except OSError:
        return False
