"""Servers of other systems as child processes: unprivileged, on free ports."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from telesto.benchmarks.peers.interface import PeerUnavailableError
from telesto.db.embedded.account import Account
from telesto.db.embedded.binaries import launch_command

HOST: Final = "127.0.0.1"
START_S_MAX: Final = 90.0
STOP_S_MAX: Final = 20.0
POLL_S: Final = 0.1
NOBODY: Final = "nobody"


def free_port() -> int:
    """Return a TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def find_program(*names: str) -> str | None:
    """Return the first of these programs that exists: next to Python, on the path, or at a full path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"])
    found = (shutil.which(name, path=path) for name in names)
    return next((program for program in found if program), None)


def version_line(program: str, *arguments: str) -> str:
    """Return the first line that a program prints."""
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=START_S_MAX, check=False
    )
    return (done.stdout or done.stderr).strip().partition("\n")[0]


class ServerProcess:
    """One process of a server; it ends with its parent, even if that is killed.

    As root it runs under another account, which then owns its directory.
    """

    def __init__(self, name: str, account: str = NOBODY) -> None:
        self._name = name
        self._account = _account(account)
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Path | None = None

    @property
    def pid(self) -> int:
        """The process's id; 0 if it does not run."""
        return self._process.pid if self._process is not None else 0

    def own(self, directory: Path) -> Path:
        """Create a directory that belongs to the process's account."""
        directory.mkdir(parents=True, exist_ok=True)
        os.chown(directory, self._account.uid, self._account.gid)
        return directory

    def spawn(
        self, command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the command in its working directory; its output goes to a file next to it."""
        self._log = directory.parent / f"{self._name}.log"
        program, *arguments = command
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                launch_command(self._account, program, arguments),
                cwd=directory,
                env=dict(environment) if environment is not None else None,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def ready(self, answers: Callable[[], Awaitable[object]]) -> None:
        """Wait until a call succeeds; PeerUnavailableError if the process ends or takes too long."""
        assert self._process is not None
        last: Exception | None = None
        deadline = asyncio.get_running_loop().time() + START_S_MAX
        while self._process.poll() is None and asyncio.get_running_loop().time() < deadline:
            try:
                await answers()
            except Exception as error:  # noqa: BLE001 - each system has errors of its own
                last = error
                await asyncio.sleep(POLL_S)
            else:
                return
        raise PeerUnavailableError(f"{self._name} did not start ({self._reason(last)})")

    async def listening(self, port: int) -> None:
        """Wait until the process accepts connections."""

        async def connect() -> None:
            _, writer = await asyncio.open_connection(HOST, port)
            writer.close()

        await self.ready(connect)

    async def stop(self) -> None:
        """End the process and the rest of its session."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                await asyncio.to_thread(process.wait, STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                await asyncio.to_thread(process.wait)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _reason(self, error: Exception | None) -> str:
        assert self._process is not None
        assert self._log is not None
        written = self._log.read_text(errors="replace").strip().splitlines()[-3:]
        ended = f"exit {self._process.poll()}" if self._process.poll() is not None else "it did not answer"
        return "; ".join([ended, *([str(error)] if error else []), *written])


class ProgramServer(ABC):
    """A server that is one process of one installed program.

    Attributes:
        program: its name, which is also that of the package.
        version: as the program prints it.
        port: where it listens.
    """

    program: str

    def __init__(self, name: str, account: str) -> None:
        self._process = ServerProcess(name, account)
        self.version = ""
        self.port = 0

    async def start(self, directory: Path) -> None:
        """Start the server. Raises PeerUnavailableError."""
        program = find_program(self.program)
        if program is None:
            raise PeerUnavailableError(f"{self.program} is not installed")
        self.version = version_line(program, "--version")
        self.port = free_port()
        home = self._process.own(directory / "server")
        self._process.spawn([program, *self._arguments(home)], home)
        await self._process.listening(self.port)

    async def stop(self) -> None:
        """End it."""
        await self._process.stop()

    def roots(self) -> Iterable[int]:
        """The server."""
        return [self._process.pid]

    @abstractmethod
    def _arguments(self, home: Path) -> list[str]:
        """Arguments of the command, for a server with its files in `home`."""


def _account(name: str) -> Account:
    """As root the account of this name, or else `nobody`; otherwise the own account."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        entry = pwd.getpwnam(NOBODY)
    return Account(entry.pw_uid, entry.pw_gid)
