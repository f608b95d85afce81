"""Whether a server takes writes, and which of several servers that do was promoted last."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from telesto.middleware.database.dsn import Connection

#: Each promotion begins a timeline with a higher number. A middleware needs commits that wait at least for
#: the server's own disk.
_ASK = """
SELECT current_setting('transaction_read_only')::boolean,
       pg_is_in_recovery(),
       CASE WHEN pg_is_in_recovery() THEN 0
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END,
       (SELECT system_identifier FROM pg_control_system()),
       set_config('synchronous_commit',
                  CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                       ELSE current_setting('synchronous_commit') END, false)
"""
#: For services that resemble PostgreSQL and do not show their timeline.
_ASK_LESS = "SELECT current_setting('transaction_read_only')::boolean, false, 0, 0"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """Whether a server takes writes, and its timeline.

    Attributes:
        read_only: it takes no writes, as a standby or by its settings.
        is_standby: it follows another server.
        history: the number of its timeline, 0 if unknown. Of two servers that take writes, the one with the
            higher number was promoted later.
        cluster: identifies its cluster. Servers of different clusters cannot be compared.
    """

    read_only: bool
    is_standby: bool
    history: int
    cluster: int

    def succeeds(self, other: ServerStatus) -> bool:
        """Tells whether this server was promoted after the other, which must not be used any more."""
        return self.cluster == other.cluster and self.history > other.history


async def status_of(connection: Connection) -> ServerStatus:
    """Asks a server. Also sets synchronous_commit so that commits wait at least for the server's disk.

    Raises what asyncpg raises.
    """
    try:
        row = await connection.fetchrow(_ASK)
    except (
        asyncpg.InsufficientPrivilegeError,
        asyncpg.UndefinedFunctionError,
        asyncpg.FeatureNotSupportedError,
    ):
        row = await connection.fetchrow(_ASK_LESS)
    assert row is not None
    return ServerStatus(row[0], row[1], row[2], row[3])
