"""Pages of a client's unconfirmed operations and hand-overs."""

from __future__ import annotations

from dataclasses import dataclass, field

from telesto.db import calls
from telesto.middleware.common.failures import check_error
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.message_rows import MESSAGE_OVERHEAD_BYTES, handed_over
from telesto.middleware.scheduling.requests import Client
from telesto.middleware.scheduling.single_request import Call, Row
from telesto.middleware.security.users import User, readable_by
from telesto.protocol.headers import content_bytes
from telesto.protocol.packets import ElementResult, HandOver, HandOverRef, OperationRef, OperationResult

#: Bytes of an operation, of one of its results, and of a hand-over beside its body, at most.
_OPERATION_BYTES = 24
_RESULT_BYTES = 12
_HAND_OVER_BYTES = 16 + MESSAGE_OVERHEAD_BYTES
_REFERENCE_BYTES = 24
#: Bytes of the answers beside the lists, at most: the client's name and the incarnation are in the first.
IDENTIFY_BYTES = 2_048
LIST_BYTES = 48

FIRST_OPERATION = OperationRef(0, 0)
FIRST_HAND_OVER = HandOverRef(0, 0, 0)


@dataclass(slots=True)
class Page:
    """A page of unconfirmed operations and hand-overs.

    Attributes:
        too_large: hand-overs that fit no page.
        denied: hand-overs from queues that the user may not read any more.
        more: there may be another page.
    """

    operations: list[OperationResult]
    hand_overs: list[HandOver] = field(default_factory=list)
    too_large: list[HandOverRef] = field(default_factory=list)
    denied: list[HandOverRef] = field(default_factory=list)
    more: bool = True

    @property
    def empty(self) -> bool:
        """Tells whether nothing is listed, not even by name."""
        return not (self.operations or self.hand_overs or self.too_large or self.denied)


async def read_page(
    call: Call,
    client: Client,
    user: User | None,
    frame_bytes: int,
    besides_bytes: int,
    settings: ServerSettings,
    after_operation: OperationRef = FIRST_OPERATION,
    after_hand_over: HandOverRef = FIRST_HAND_OVER,
) -> Page:
    """Reads what fits the frame beside the rest of the answer: first all operations, then hand-overs.

    A hand-over that would not fit a page of its own is only named, and so is one from a queue that the user
    may not read any more: what it gets through a client needs the same right as a read. The page may be empty
    with more to come, when not even the first of what there is fits this one.
    """
    space = frame_bytes - besides_bytes
    rows = await call(
        *calls.list_unconfirmed_operations(
            of_client=client.client_id,
            current_session=client.session,
            after_session=after_operation.session,
            after_number=after_operation.number,
            max_rows=settings.max_page_rows,
        )
    )
    _check_session(rows)
    operations, space = _fitting_operations(rows, space)
    page = Page(operations)
    if len(operations) == len(rows) < settings.max_page_rows:
        await _add_hand_overs(page, call, client, user, frame_bytes, space, settings, after_hand_over)
    return page


def _fitting_operations(rows: list[Row], space: int) -> tuple[list[OperationResult], int]:
    operations: list[OperationResult] = []
    for row in rows:
        operation = _operation(row)
        size = _OPERATION_BYTES + _RESULT_BYTES * len(operation.results)
        if size > space:
            break
        operations.append(operation)
        space -= size
    return operations, space


async def _add_hand_overs(
    page: Page,
    call: Call,
    client: Client,
    user: User | None,
    frame_bytes: int,
    space: int,
    settings: ServerSettings,
    after: HandOverRef,
) -> None:
    rows = await call(
        *calls.list_unconfirmed_hand_overs(
            of_client=client.client_id,
            current_session=client.session,
            after_session=after.session,
            after_number=after.number,
            after_message_id=after.message_id,
            max_rows=max(1, min(settings.max_page_rows, space // _HAND_OVER_BYTES)),
            max_bytes=max(0, min(space, settings.max_answer_bytes)),
            readable=readable_by(user),
        )
    )
    _check_session(rows)
    page.more = bool(rows)
    for row in rows:
        reference = HandOverRef(row["session"], row["number"], row["message_id"])
        if row["denied"]:
            space -= _REFERENCE_BYTES
            if space < 0:
                break
            page.denied.append(reference)
            continue
        message = handed_over(row)
        size = _HAND_OVER_BYTES + content_bytes(message)
        too_large = size > frame_bytes - LIST_BYTES
        space -= _REFERENCE_BYTES if too_large else size
        if space < 0:
            break
        if too_large:
            page.too_large.append(reference)
        else:
            page.hand_overs.append(HandOver(row["session"], row["number"], message))


def _operation(row: Row) -> OperationResult:
    related = row["related_ids"]
    errors = row["errors"] or [None] * len(related)
    results = [ElementResult(related_id, error) for related_id, error in zip(related, errors, strict=True)]
    return OperationResult(row["session"], row["number"], row["method_id"], results)


def _check_session(rows: list[Row]) -> None:
    if rows:
        check_error(rows[0]["error"], "nothing was listed")
