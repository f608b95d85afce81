"""What a server says of itself: whether it takes writes, and which of several that do is the primary now."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from telesto.middleware.database.dsn import Connection

#: A cluster's history forks with each promotion, and the fork has the higher number. A commit that does not
#: even wait for the own disk is never what a middleware wants.
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
#: For services that resemble PostgreSQL and do not tell their history.
_ASK_LESS = "SELECT current_setting('transaction_read_only')::boolean, false, 0, 0"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """Whether a server takes writes, and its place in the history of its cluster.

    Attributes:
        read_only: it takes no writes, as a standby, or as it was told to.
        is_standby: it follows another server.
        history: the number of its timeline, 0 when it does not tell; of two servers that take writes, the one
            with the higher number was promoted later.
        cluster: which cluster it belongs to; servers of different ones cannot be compared.
    """

    read_only: bool
    is_standby: bool
    history: int
    cluster: int

    def succeeds(self, other: ServerStatus) -> bool:
        """Tells whether this one was promoted in the place of the other, which must not be used any more."""
        return self.cluster == other.cluster and self.history > other.history


async def status_of(connection: Connection) -> ServerStatus:
    """Asks a server; also sees to it that commits wait for what the server's settings name.

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
