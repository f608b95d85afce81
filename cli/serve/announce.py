"""The output of `telesto serve` when it is ready: the address, the data and the first commands to try."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from telesto.cli.serve.systemd import ServiceManager
from telesto.cli.terminal import output
from telesto.cli.terminal.failures import CommandError, OutputClosedError

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True)
class Announcement:
    """Announces that the service is ready.

    Attributes:
        data_dir: of the embedded database; None if the database was given by URL.
        as_json: print it as one JSON object.
        tls: both ports speak TLS.
        advertised: the address that clients are told; None for that of the socket.
        has_users: there are users, so that everybody has to log in.
        needs_users: everybody has to log in, also while there are no users.
        manager: is told too.
    """

    data_dir: Path | None
    as_json: bool
    tls: bool
    advertised: str | None
    has_users: bool
    needs_users: bool
    manager: ServiceManager

    def print(
        self,
        host: str,
        port: int,
        admin: tuple[str, int] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Print it, for people or as one JSON object; the service goes on if it cannot be printed.

        `loop` is the one that serves, if it is in this process.
        """
        self.manager.ready(f"serves {self._url(host, port)}", loop)
        with suppress(OutputClosedError, CommandError):
            if self.as_json:
                self._print_json(host, port, admin)
            else:
                self._print_text(host, port, admin)

    def _print_json(self, host: str, port: int, admin: tuple[str, int] | None) -> None:
        output.print_json(
            {
                "address": _address(host, port),
                "url": self._url(host, port),
                "admin_address": _address(*admin) if admin else None,
                "data_dir": str(self.data_dir.resolve()) if self.data_dir else None,
                "pid": os.getpid(),
            }
        )

    def _print_text(self, host: str, port: int, admin: tuple[str, int] | None) -> None:
        output.print_line(f"Telesto serves {self._url(host, port)} (Ctrl-C stops it)")
        if self.data_dir:
            output.print_line(f"Data:    {self.data_dir.resolve()}")
        if admin:
            output.print_line(f"Metrics: {'https' if self.tls else 'http'}://{_address(*admin)}/metrics")
        output.print_line("Try, in another terminal:")
        for command in self._first_commands(self._url(host, port)):
            output.print_line(f"  {command}")

    def _first_commands(self, url: str) -> list[str]:
        from telesto.cli.common.options import DEFAULT_DATA_DIRECTORY, DEFAULT_URL

        setting = [] if url == DEFAULT_URL else [f"export TELESTO_URL={url}"]
        login = []
        if self.needs_users and not self.has_users:
            usual = self.data_dir is None or self.data_dir == DEFAULT_DATA_DIRECTORY.resolve()
            place = "" if usual else f" --data-dir {shlex.quote(str(self.data_dir))}"
            login.append(f"telesto user add NAME --administrator{place}")
        if self.needs_users or self.has_users:
            login.append("export TELESTO_USER=NAME TELESTO_PASSWORD_FILE=FILE  # the file has the password")
        return [
            *_to_find_telesto(),
            *setting,
            *login,
            "telesto queue create orders",
            "telesto put orders hello",
            "telesto get orders",
        ]

    def _url(self, host: str, port: int) -> str:
        if self.tls:  # the certificate is for the name that clients are told
            return f"telestos://{self.advertised or _address(WILDCARDS.get(host, host), port)}"
        return f"telesto://{_address(WILDCARDS.get(host, host), port)}"


def _to_find_telesto() -> list[str]:
    """The command that makes the shell find this environment's `telesto`; nothing if it does already."""
    script = Path(sys.executable).with_name("telesto")
    found = shutil.which("telesto")
    if not script.exists() or (found and Path(found).resolve() == script.resolve()):
        return []
    return [f'export PATH={shlex.quote(str(script.parent))}:"$PATH"']


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
