"""What earlier sessions of a client executed and the client has not confirmed, as a takeover lists it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from telesto.client.calls import Call, TakingCall, handed_over
from telesto.client.confirmations import OperationId
from telesto.client.errors import ProtocolViolationError
from telesto.client.models import HandOverId, Message
from telesto.protocol import packets
from telesto.protocol.errors import TelestoError


class Takeover:
    """Collects the pages of the list.

    Messages that pending calls ask for are all kept; of others so many as there is room for, the rest is only
    named, to be given back.

    Attributes:
        operations: the results of each request other than a read.
        hand_overs: the messages of each read.
        surplus: messages that there was no room for.
    """

    def __init__(self, wanted: Collection[OperationId], room: int) -> None:
        self._wanted = wanted
        self._room = room
        self._after_operation = packets.OperationRef(0, 0)
        self._after_hand_over = packets.HandOverRef(0, 0, 0)
        self.operations: dict[OperationId, list[packets.ElementResult]] = {}
        self.hand_overs: dict[OperationId, list[Message]] = {}
        self.surplus: list[HandOverId] = []

    def add(self, operations: list[packets.OperationResult], hand_overs: list[packets.HandOver]) -> None:
        """Adds a page."""
        for operation in operations:
            self.operations[OperationId(operation.session, operation.number)] = operation.results
            self._after_operation = packets.OperationRef(operation.session, operation.number)
        for hand_over in hand_overs:
            self._add_hand_over(hand_over.session, hand_over.number, hand_over.message)

    def next_page(self) -> packets.ListUnconfirmed:
        """Returns the request for what comes after the pages added."""
        return packets.ListUnconfirmed(self._after_operation, self._after_hand_over)

    def listed_hand_overs(self) -> set[HandOverId]:
        """Returns the messages listed."""
        names = {
            message.hand_over
            for messages in self.hand_overs.values()
            for message in messages
            if message.hand_over is not None
        }
        return names.union(self.surplus)

    def answer(self, call: Call[Any]) -> bool:
        """Gives the call the answer that was recorded; False when it is not listed, so it was not done."""
        operation = OperationId(call.session, call.number)
        results = self.operations.pop(operation, None)
        if results is not None:
            _answer_by_results(call, results)
            return True
        messages = self.hand_overs.pop(operation, None)
        if messages is None:
            return False
        if isinstance(call, TakingCall):
            call.messages = messages
        else:
            call.error = ProtocolViolationError(f"{call.method} is recorded as a read", method=call.method)
        return True

    def _add_hand_over(self, session: int, number: int, message: packets.Message) -> None:
        operation = OperationId(session, number)
        self._after_hand_over = packets.HandOverRef(session, number, message.message_id)
        if operation not in self._wanted:
            if self._room <= 0:
                self.surplus.append(HandOverId(session, number, message.message_id))
                return
            self._room -= 1
        self.hand_overs.setdefault(operation, []).append(handed_over(message, session, number))


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
