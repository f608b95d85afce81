"""PostgreSQL's settings for a queue on this machine, and their files.

``postgresql.conf`` includes ``telesto.conf`` (written by Telesto at every start) and then ``user.conf``
(never changed again, so an administrator's settings there stay and take precedence).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from telesto.db.embedded.account import Account, give

OWN_FILE = "telesto.conf"
USER_FILE = "user.conf"
MIB = 1024 * 1024
SHARED_BUFFERS_MIN_MIB = 128
SHARED_BUFFERS_MAX_MIB = 2048
WAL_MIN_MIB = 64
WAL_MAX_MIB = 4096
#: The write-ahead log takes at most this part of the free space (1 / WAL_PART_OF_FREE), so that it does not
#: fill a small disk.
WAL_PART_OF_FREE = 10
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")

_INCLUDES = f"""
# Added by Telesto. The second file is yours and wins.
include_if_exists '{OWN_FILE}'
include_if_exists '{USER_FILE}'
"""
_USER_HEADER = f"# Your own settings for Telesto's PostgreSQL; they win over {OWN_FILE} and stay.\n"
_OWN_HEADER = f"# Written by Telesto at every start; changes belong into {USER_FILE}.\n"

_FIXED: dict[str, str] = {
    # An answered put is durable: the guarantee depends on these two.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "100",
    # A batch takes an advisory lock for each of its clients and two for each of its queues.
    "max_locks_per_transaction": "512",
    # Rare checkpoints: whole pages are logged after each, and a queue rewrites the same pages repeatedly.
    "checkpoint_timeout": "15min",
    "checkpoint_completion_target": "0.9",
    "wal_compression": "on",
    # Consumed rows are dead rows: vacuum must find them soon, without a delay. Running more often costs more
    # than it saves, and running less often lets the tables grow.
    "autovacuum_naptime": "15s",
    "autovacuum_vacuum_cost_delay": "0",
    # Compiling a plan takes longer than any procedure of a queue.
    "jit": "off",
    "random_page_cost": "1.1",
    # A backend that cannot send its answer keeps its locks, and no timeout of PostgreSQL's own ends it.
    "tcp_user_timeout": "5s",
    "tcp_keepalives_idle": "30s",
    "tcp_keepalives_interval": "5s",
    "tcp_keepalives_count": "3",
    "client_connection_check_interval": "5s",
    # An application may keep a transaction open for minutes, but must not hold back vacuum for ever.
    "idle_in_transaction_session_timeout": "30min",
    "deadlock_timeout": "1s",
    # The log never holds the text of a statement: it may contain a message's body or a password.
    "log_min_error_statement": "panic",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_lock_waits": "on",
    "log_line_prefix": "%m [%p] %q%d %a ",
    "log_rotation_size": "10MB",
    "log_rotation_age": "1d",
}


def memory_mib() -> int:
    """Return the memory that this process may use, in MiB: the machine's, or a container's limit."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = CGROUP_LIMIT.read_text().strip()
    except OSError:
        limit = "max"
    return (min(machine, int(limit)) if limit.isdigit() else machine) // MIB


def shared_buffers_mib(memory: int) -> int:
    """Return the size of PostgreSQL's own cache in MiB: a quarter of `memory` (MiB), within bounds."""
    return max(SHARED_BUFFERS_MIN_MIB, min(SHARED_BUFFERS_MAX_MIB, memory // 4))


def free_mib(directory: Path) -> int:
    """Return the free space on the disk of `directory`, in MiB."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize // MIB


def wal_mib(free: int) -> int:
    """Return the maximal size of the write-ahead log on a disk with `free` MiB left, in MiB."""
    return max(WAL_MIN_MIB, min(WAL_MAX_MIB, free // WAL_PART_OF_FREE))


def queue_settings(memory: int, free: int) -> dict[str, str]:
    """Return the settings for a machine with `memory` MiB and `free` MiB on the data's disk."""
    wal = wal_mib(free)
    return {
        **_FIXED,
        "max_wal_size": f"{wal}MB",
        "min_wal_size": f"{min(256, wal // 2)}MB",
        "shared_buffers": f"{shared_buffers_mib(memory)}MB",
        "effective_cache_size": f"{max(SHARED_BUFFERS_MIN_MIB, memory // 2)}MB",
    }


def identity_settings(port: int, log_dir: Path) -> dict[str, str]:
    """Return the settings by which the owner finds the server; on the command line no file overrides them."""
    return {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "logging_collector": "on",
        "log_destination": "stderr",
        "log_directory": str(log_dir),
        "log_filename": "postgresql-%Y%m%d-%H%M%S.log",
    }


def quoted(value: str) -> str:
    """Quote a value for a configuration file."""
    return "'" + value.replace("'", "''") + "'"


def settings_text(settings: Mapping[str, str]) -> str:
    """Return the text of a configuration file."""
    return _OWN_HEADER + "".join(f"{name} = {quoted(value)}\n" for name, value in settings.items())


def add_includes(cluster: Path, account: Account) -> None:
    """Make a new cluster read our file and the user's."""
    (cluster / USER_FILE).write_text(_USER_HEADER)
    give(cluster / USER_FILE, account)
    with (cluster / "postgresql.conf").open("a") as configuration:
        configuration.write(_INCLUDES)


def write_own_settings(cluster: Path, settings: Mapping[str, str], account: Account) -> None:
    """Write our file in one step, so that a crash never leaves half of it."""
    fresh = cluster / f"{OWN_FILE}.new"
    fresh.write_text(settings_text(settings))
    give(fresh, account)
    fresh.replace(cluster / OWN_FILE)
