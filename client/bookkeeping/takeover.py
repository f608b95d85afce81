"""What earlier sessions of a client executed and the client has not confirmed, as a takeover lists it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from telesto.client.calls.queue_calls import Call, TakingCall, message_of
from telesto.client.calls.state import OperationId
from telesto.client.errors import ProtocolViolationError
from telesto.client.models import HandOverId, Message
from telesto.protocol import packets
from telesto.protocol.errors import MessageTooLargeError, PermissionDeniedError, TelestoError

#: Why a message that was taken is not told, and what to do.
TOO_LARGE = (
    MessageTooLargeError,
    "the message that was taken does not fit the frames of this connection; it stays with the service until "
    "the client connects with a larger max_frame, to a middleware that has one",
)
PERMISSION_DENIED = (
    PermissionDeniedError,
    "the user may not read from the queue any more; the message that was taken stays with the service until "
    "the client connects when its user has the right to get again",
)


class Takeover:
    """Collects the pages of the list.

    Messages that pending calls ask for are all kept; of others as many as there is space for. The rest is
    only named, to be given back.

    Attributes:
        operations: the results of each request other than a read.
        hand_overs: the messages of each read.
        surplus: messages that there was no space for.
        too_large: messages that fit no frame that this client accepts; they stay with the service, and with
            this client.
        denied: messages that the user may not read any more; they stay with the service in the same way.
    """

    def __init__(self, wanted: Collection[OperationId], free: int) -> None:
        self._wanted = wanted
        self._free = free
        self._after_operation = packets.OperationRef(0, 0)
        self._after_hand_over = HandOverId(0, 0, 0)
        self.operations: dict[OperationId, list[packets.ElementResult]] = {}
        self.hand_overs: dict[OperationId, list[Message]] = {}
        self.surplus: list[HandOverId] = []
        self.too_large: list[HandOverId] = []
        self.denied: list[HandOverId] = []

    def add(self, page: packets.IdentifyClientResponse | packets.ListUnconfirmedResponse) -> None:
        """Adds a page."""
        for operation in page.operations:
            self.operations[OperationId(operation.session, operation.number)] = operation.results
            self._after_operation = packets.OperationRef(operation.session, operation.number)
        for hand_over in page.hand_overs:
            self._add_hand_over(hand_over.session, hand_over.number, hand_over.message)
        for refs, names in ((page.too_large, self.too_large), (page.denied, self.denied)):
            for ref in refs or ():
                name = HandOverId(ref.session, ref.number, ref.message_id)
                names.append(name)
                self._after_hand_over = max(self._after_hand_over, name)

    def next_page(self) -> packets.ListUnconfirmed:
        """Returns the request for what comes after the pages added."""
        return packets.ListUnconfirmed(self._after_operation, packets.HandOverRef(*self._after_hand_over))

    def listed_hand_overs(self) -> set[HandOverId]:
        """Returns the messages listed."""
        names = {
            message.hand_over
            for messages in self.hand_overs.values()
            for message in messages
            if message.hand_over is not None
        }
        return names.union(self.surplus, self.too_large, self.denied)

    def answer(self, call: Call[Any]) -> bool:
        """Gives the call the answer that was recorded; False when it is not listed, so it was not done."""
        operation = OperationId(call.session, call.number)
        results = self.operations.pop(operation, None)
        if results is not None:
            _answer_by_results(call, results)
            return True
        kept_back = [name for name in (*self.denied, *self.too_large) if name[:2] == operation]
        messages = self.hand_overs.pop(operation, None)
        if messages is None and not kept_back:
            return False
        if not isinstance(call, TakingCall):
            call.error = ProtocolViolationError(f"{call.method} is recorded as a read", method=call.method)
        elif kept_back:
            denied = kept_back[0] in self.denied
            _answer_in_part(call, messages or [], kept_back[0], PERMISSION_DENIED if denied else TOO_LARGE)
        else:
            call.messages = messages or []
        return True

    def _add_hand_over(self, session: int, number: int, message: packets.Message) -> None:
        operation = OperationId(session, number)
        hand_over = HandOverId(session, number, message.message_id)
        self._after_hand_over = max(self._after_hand_over, hand_over)
        if operation not in self._wanted:
            if self._free <= 0:
                self.surplus.append(hand_over)
                return
            self._free -= 1
        self.hand_overs.setdefault(operation, []).append(message_of(message, hand_over))


def _answer_in_part(
    call: TakingCall[Any], messages: list[Message], kept_back: HandOverId, why: tuple[type[TelestoError], str]
) -> None:
    """Gives a read what can be received. The read as a whole must not be confirmed, for the rest is not."""
    call.messages = messages
    call.from_recovered = True
    if not messages:
        call.number = 0
        error, details = why
        call.error = error(
            details, method=call.method, related_id=kept_back.message_id, queue_id=call.queue_id
        )


def _answer_by_results(call: Call[Any], results: list[packets.ElementResult]) -> None:
    try:
        call.response = call.recorded(results)
        if isinstance(call, TakingCall):
            call.messages = []
    except TelestoError as error:
        call.error = error
    except (ValueError, IndexError) as error:
        call.error = ProtocolViolationError(
            f"the record of {call.method} has {len(results)} results, which do not fit the request",
            method=call.method,
        )
        call.error.__cause__ = error
