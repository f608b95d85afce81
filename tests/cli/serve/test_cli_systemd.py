"""The service under systemd: its units, and what it tells the service manager."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import TIMEOUT_S, CommandLine
from faults.waiting import wait_until
from telesto.cli.serve.systemd import ServiceManager

UNITS = sorted((Path(__file__).parents[3] / "deploy" / "systemd").glob("*.service"))
#: A third of it is the pause between two signs of life.
WATCHDOG_S = 0.6


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.bind(str(tmp_path / "notify"))
        ours.settimeout(TIMEOUT_S)
        yield ours


def told(manager: socket.socket) -> list[str]:
    return manager.recv(4_096).decode().splitlines()


def hears(manager: socket.socket, period_s: float) -> bool:
    """Whether the watchdog hears anything within a time, behind what has come already."""
    manager.setblocking(False)
    try:
        while manager.recv(4_096):
            pass
    except BlockingIOError:
        pass
    manager.settimeout(period_s)
    try:
        return told(manager) == ["WATCHDOG=1"]
    except TimeoutError:
        return False
    finally:
        manager.settimeout(TIMEOUT_S)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_service_manager_is_told_that_it_serves_lives_and_stops(
    bare_telesto: CommandLine, database_url: str, manager: socket.socket, processes: str
) -> None:
    bare_telesto.environment |= {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "200000"}
    serve = ("serve", "--database-url", database_url, "--port", "0", "--processes", processes)
    with bare_telesto.started(*serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        ready, status = told(manager)
        assert ready == "READY=1"
        url = status.removeprefix("STATUS=serves ")
        CommandLine(bare_telesto.home, url).output("ping")
        assert hears(manager, TIMEOUT_S)
        process.send_signal(signal.SIGTERM)
        while (said := told(manager)) == ["WATCHDOG=1"]:
            pass
        assert said == ["STOPPING=1", "STATUS=stopping"]
        assert process.wait(TIMEOUT_S) == 0


def test_the_watchdog_hears_nothing_of_a_loop_that_hangs(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
    monkeypatch.setenv("WATCHDOG_USEC", str(int(WATCHDOG_S * 1e6)))
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    service = ServiceManager()
    assert "NOTIFY_SOCKET" not in os.environ
    hangs, goes_on = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        goes_on.wait(TIMEOUT_S)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        service.ready("serves", loop)
        assert told(manager) == ["READY=1", "STATUS=serves"]
        assert await asyncio.to_thread(hears, manager, TIMEOUT_S)
        loop.call_soon(hang)
        await asyncio.sleep(0)

    runner = threading.Thread(target=asyncio.run, args=(serve(),))
    runner.start()
    assert hangs.wait(TIMEOUT_S)
    wait_until(lambda: not hears(manager, 2 * WATCHDOG_S))
    goes_on.set()
    runner.join()
    # It has no loop any more, but is not done with its end: that must not be taken for a hang.
    service.stopping()
    assert told(manager) == ["STOPPING=1", "STATUS=stopping"]
    assert hears(manager, TIMEOUT_S)


def test_another_process_does_not_speak_for_the_service(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    ServiceManager().ready("serves")
    assert told(manager)[0] == "READY=1"
    assert not hears(manager, 1.0)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_units_are_well_formed(unit: Path, tmp_path: Path) -> None:
    """systemd-analyze finds nothing, where it is; the command of the unit is one of ours."""
    lines = unit.read_text().splitlines()
    (command,) = (line for line in lines if line.startswith("ExecStart="))
    program, word, *options = command.partition("=")[2].split()
    assert (program, word) == ("/opt/telesto/bin/telesto", "serve")
    assert options in ([], ["--data-dir", "/var/lib/telesto"])
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(program, "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
