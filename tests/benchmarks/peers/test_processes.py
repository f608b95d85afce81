"""Servers of other systems as processes: a failure is explained, and nothing is left behind."""

import os
import signal
from pathlib import Path

import pytest

from faults.waiting import until
from telesto.benchmarks.peers.interface import PeerUnavailableError
from telesto.benchmarks.peers.processes import ServerProcess
from telesto.benchmarks.tiers.usage import family_cpu_seconds


async def test_a_process_that_ends_at_once_is_explained(tmp_path: Path) -> None:
    process = ServerProcess("example")
    home = tmp_path / "home"
    home.mkdir()
    process.spawn(["/bin/sh", "-c", "echo no licence >&2; exit 3"], home)

    async def never() -> None:
        raise ConnectionRefusedError("nobody there")

    with pytest.raises(PeerUnavailableError, match=r"example did not start \(exit 3;.*no licence"):
        await process.ready(never)
    await process.stop()
    assert process.pid == 0


def state_of(pid: int) -> str:
    """The state of a process as /proc has it; X when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


async def test_a_process_ends_with_everything_that_it_started(tmp_path: Path) -> None:
    process, home = ServerProcess("example"), tmp_path / "home"
    home.mkdir()
    process.spawn(["/bin/sh", "-c", "trap '' TERM; sleep 1000 & echo $! ; wait"], home)
    log = tmp_path / "example.log"

    async def written() -> None:
        assert log.read_text().strip()

    await process.ready(written)
    child = int(log.read_text())
    assert family_cpu_seconds(process.pid) >= 0.0
    os.kill(process.pid, signal.SIGKILL)
    await process.stop()
    await until(lambda: state_of(child) in "ZX")
