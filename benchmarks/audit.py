"""The audit at the end of a run: was anything lost or duplicated?

The generators say what was acknowledged and what they were handed; the database says what is
still there. Between them every acknowledged message must be exactly once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import asyncpg

from telesto.benchmarks.bodies import IDENTITY_BYTES, identities_of


@dataclass(frozen=True, slots=True)
class Audit:
    """The balance of a run, in messages."""

    put: int
    read: int
    left: int
    lost: int
    duplicated: int
    foreign: int
    examples: tuple[int, ...] = field(default=())

    @property
    def clean(self) -> bool:
        """Nothing was lost, doubled or came from nowhere."""
        return not (self.lost or self.duplicated or self.foreign)


@dataclass(slots=True)
class Claims:
    """What the generators of a run say: identities, each list with its repetitions."""

    acknowledged: array[int] = field(default_factory=lambda: array("Q"))
    doubtful: array[int] = field(default_factory=lambda: array("Q"))
    read: array[int] = field(default_factory=lambda: array("Q"))


EXAMPLES = 5
"""How many of the messages concerned an audit names."""


def compare(claims: Claims, waiting: Iterable[int], handed_over: Iterable[int]) -> Audit:
    """Compare the claims with what the database holds.

    `waiting` are the identities of the messages that are ready to be read, `handed_over` those of
    messages that were handed over and not confirmed: such a one may have reached its reader.
    """
    acknowledged, read = set(claims.acknowledged), set(claims.read)
    allowed = acknowledged.union(claims.doubtful)
    left = array("Q", waiting)
    in_queue = set(left)
    lost = acknowledged - read - in_queue - set(handed_over)
    foreign = (read | in_queue) - allowed
    twice = (read & in_queue) | _repeated(claims.read) | _repeated(left)
    concerned = sorted(lost | foreign | twice)[:EXAMPLES]
    return Audit(
        len(claims.acknowledged),
        len(claims.read),
        len(left),
        len(lost),
        len(twice),
        len(foreign),
        tuple(concerned),
    )


def _repeated(identities: array[int]) -> set[int]:
    """Return the identities that occur more than once."""
    if len(set(identities)) == len(identities):
        return set()
    ordered = sorted(identities)
    return {one for one, following in pairwise(ordered) if one == following}


async def audit_queues(connection: asyncpg.Connection, queue_ids: Sequence[int], claims: Claims) -> Audit:
    """Compare the claims with the rows of some queues. Needs the right to read Telesto's tables."""
    waiting = await _stored(connection, "telesto.messages", queue_ids)
    handed_over = await _stored(connection, "telesto.deliveries", queue_ids)
    return compare(claims, waiting, handed_over)


async def _stored(connection: asyncpg.Connection, table: str, queue_ids: Sequence[int]) -> array[int]:
    """Fetch the identities of the queues' messages in a table, as one value: a row each costs too much."""
    identities = f"string_agg(substr(body, 1, {IDENTITY_BYTES}), ''::bytea)"
    statement = f"SELECT {identities} FROM {table} WHERE queue_id = ANY($1::bigint[])"
    packed: bytes | None = await connection.fetchval(statement, queue_ids)
    return identities_of(packed or b"")
