"""Pages of what a client executed or was handed and has not confirmed."""

from __future__ import annotations

from dataclasses import dataclass

from telesto.middleware.failures import check_error
from telesto.middleware.handlers.rows import MESSAGE_OVERHEAD_BYTES, message_of
from telesto.middleware.requests import Client
from telesto.middleware.settings import ServerSettings
from telesto.middleware.single import Call, Row
from telesto.protocol.packets import ElementResult, HandOver, HandOverRef, OperationRef, OperationResult

LIST_OPERATIONS = "SELECT * FROM telesto.list_unconfirmed_operations($1, $2, $3, $4, $5)"
LIST_HAND_OVERS = "SELECT * FROM telesto.list_unconfirmed_hand_overs($1, $2, $3, $4, $5, $6, $7)"

#: Bytes of an operation, of one of its results, and of a hand-over beside its body, at most.
_OPERATION_BYTES = 24
_RESULT_BYTES = 12
_HAND_OVER_BYTES = 16 + MESSAGE_OVERHEAD_BYTES
#: Bytes of the answers beside the lists, at most: the client's name and the incarnation are in the first.
IDENTIFY_BYTES = 2_048
LIST_BYTES = 48

FIRST_OPERATION = OperationRef(0, 0)
FIRST_HAND_OVER = HandOverRef(0, 0, 0)


@dataclass(slots=True)
class Page:
    """A page of unconfirmed operations and hand-overs; ``more`` says whether there may be another one."""

    operations: list[OperationResult]
    hand_overs: list[HandOver]
    more: bool


async def read_page(
    call: Call,
    client: Client,
    room: int,
    settings: ServerSettings,
    after_operation: OperationRef = FIRST_OPERATION,
    after_hand_over: HandOverRef = FIRST_HAND_OVER,
) -> Page:
    """Reads what fits so many bytes: operations first, then hand-overs once all operations are listed.

    The page may be empty with more to come, when not even the first of them fits.
    """
    rows = await call(
        LIST_OPERATIONS,
        client.client_id,
        client.session,
        after_operation.session,
        after_operation.number,
        settings.max_page_rows,
    )
    _check_session(rows)
    operations, room = _fitting_operations(rows, room)
    if len(operations) < len(rows) or len(rows) == settings.max_page_rows:
        return Page(operations, [], True)
    hand_overs, more = await _read_hand_overs(call, client, room, settings, after_hand_over)
    return Page(operations, hand_overs, more)


def _fitting_operations(rows: list[Row], room: int) -> tuple[list[OperationResult], int]:
    operations: list[OperationResult] = []
    for row in rows:
        operation = _operation(row)
        size = _OPERATION_BYTES + _RESULT_BYTES * len(operation.results)
        if size > room:
            break
        operations.append(operation)
        room -= size
    return operations, room


async def _read_hand_overs(
    call: Call, client: Client, room: int, settings: ServerSettings, after: HandOverRef
) -> tuple[list[HandOver], bool]:
    rows = await call(
        LIST_HAND_OVERS,
        client.client_id,
        client.session,
        after.session,
        after.number,
        after.message_id,
        max(1, min(settings.max_page_rows, room // _HAND_OVER_BYTES)),
        max(0, min(room, settings.max_answer_bytes)),
    )
    _check_session(rows)
    hand_overs: list[HandOver] = []
    for row in rows:
        room -= _HAND_OVER_BYTES + len(row["body"])
        if room < 0:
            break
        hand_overs.append(HandOver(row["session"], row["number"], message_of(row)))
    return hand_overs, bool(rows)


def _operation(row: Row) -> OperationResult:
    related = row["related_ids"]
    errors = row["errors"] or [None] * len(related)
    results = [ElementResult(related_id, error) for related_id, error in zip(related, errors, strict=True)]
    return OperationResult(row["session"], row["number"], row["method_id"], results)


def _check_session(rows: list[Row]) -> None:
    if rows:
        check_error(rows[0]["error"], "nothing was listed")
