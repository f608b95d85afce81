"""Handlers of single requests: their arguments and their replies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict

import asyncpg

from telesto.db.calls import Statement
from telesto.middleware.common.failures import (
    LOCKED_SQLSTATE,
    BusyError,
    LostError,
    RefusedError,
    UnavailableError,
)
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.requests import Arrivals, Client, Progress, Request
from telesto.middleware.security.users import User
from telesto.protocol.packet import Packet
from telesto.protocol.packets import LeaseRef

Row = asyncpg.Record

#: What a client is told of a request that failed after a part of it was done.
IN_PART = "the request was done in part"


class Call(Protocol):
    """Executes one statement in its own transaction. Raises what DatabaseConnection.call raises."""

    def __call__(self, sql: str, *arguments: Any) -> Awaitable[list[Row]]:
        """Returns the rows."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a single request and its consequences.

    Attributes:
        packet: the answer.
        arrivals: messages that came back to queues.
        settled: messages that consumers no longer have.
        lost: messages that consumers no longer have, and that they have to be told of.
        failed: messages that consumers have given back as failed.
        touched: messages that consumers have touched; ``settled`` has those that were gone. None for others.
        deleted_queue: the queue that is gone now, 0 for none.
        changed_topic: the topic of which the client's subscription began or ended, 0 for none.
        identity: who the connection is from now on, None when that does not change.
        user: the user that the connection has logged in as, once a login is complete.
        last: the connection is over after this answer.
        audited: what the audit log tells besides the request and its answer.
    """

    packet: Packet
    arrivals: Arrivals = field(default_factory=dict)
    settled: list[LeaseRef] = field(default_factory=list)
    lost: list[LeaseRef] = field(default_factory=list)
    failed: list[LeaseRef] = field(default_factory=list)
    touched: list[LeaseRef] | None = None
    deleted_queue: int = 0
    changed_topic: int = 0
    identity: Client | None = None
    user: User | None = None
    last: bool = False
    audited: dict[str, object] = field(default_factory=dict)


class Handler(Protocol):
    """Executes one request.

    Raises BusyError, FailedError, and what Call raises.
    """

    async def __call__(self, call: Call, request: Request, settings: ServerSettings) -> Reply:
        """Returns the answer."""


@dataclass(frozen=True, slots=True)
class OneCall:
    """A handler that calls one procedure: a pair of pure functions around it.

    Attributes:
        statement: makes the call of the procedure.
        reply: makes the answer from its rows; raises BusyError or FailedError.
    """

    statement: Callable[[Request, ServerSettings], Statement]
    reply: Callable[[Request, list[Row], ServerSettings], Reply]

    async def __call__(self, call: Call, request: Request, settings: ServerSettings) -> Reply:
        """Calls the procedure."""
        rows = await call(*self.statement(request, settings))
        return self.reply(request, rows, settings)


async def follow_up(call: Call, sql: str, *arguments: Any) -> list[Row]:
    """Calls a procedure after another call of the same request has taken effect.

    The request has done something by then, so a failure leaves it in doubt. One that met a lock raises
    BusyError.
    """
    try:
        return await call(sql, *arguments)
    except (UnavailableError, RefusedError) as error:
        if isinstance(error, RefusedError) and error.sqlstate == LOCKED_SQLSTATE:
            raise BusyError from error
        raise LostError(str(error), suspicious=False, told=IN_PART) from error


async def next_part(call: Call, request: Request, statement: Statement) -> Row:
    """Calls the procedure that does a request part by part; returns its row.

    If it raises BusyError, or the row says so, the handler is called again later and goes on from the
    pipeline's progress.
    """
    if request.pipeline.progress is None:
        return (await call(*statement))[0]
    return (await follow_up(call, *statement))[0]


def note_part(request: Request, progress: Progress) -> None:
    """Keeps what a request has done so far, of which more calls will follow."""
    request.pipeline.progress = progress
    request.pipeline.busy_count = 0


class Numbered(TypedDict):
    """The arguments that all single numbered procedures have."""

    client_id: int
    session: int
    number: int
    confirm_sessions: list[int]
    confirm_numbers: list[int]


def numbered(request: Request) -> Numbered:
    """The arguments that all single numbered procedures have."""
    client, packet = request.pipeline.client, request.packet
    return {
        "client_id": client.client_id,
        "session": client.session,
        "number": packet.number,
        "confirm_sessions": [client.session] * len(packet.confirmed),
        "confirm_numbers": packet.confirmed,
    }


def arrivals_of(queue_ids: list[int] | None, receiver_ids: list[int] | None) -> Arrivals:
    """Counts messages that came back, by queue and receiver."""
    arrivals: Arrivals = {}
    for key in zip(queue_ids or (), receiver_ids or (), strict=True):
        arrivals[key] = arrivals.get(key, 0) + 1
    return arrivals
