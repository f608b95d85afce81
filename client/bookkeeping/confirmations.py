"""What the client still owes the service: which answers the application has taken.

The number of a request of the current session is confirmed by the next numbered request, or by a Confirm
packet when none follows soon. What belongs to an earlier session, or is one message of a read, only a Confirm
packet can carry. If it has waited before, over a refusal or a lost connection, the packet leaves ahead of
whatever is sent next.

A confirmation is forgotten when a success answer proves that a committed batch applied it, or when a takeover
no longer lists what it confirms; until then it is carried again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from telesto.client.bookkeeping.write_ahead_log import WriteAheadLog
from telesto.client.calls.state import OperationId
from telesto.client.models import HandOverId
from telesto.protocol import packets

#: How many confirmations one Confirm packet carries at most, so that it fits into any frame.
CONFIRM_ITEMS_MAX = 512


@dataclass(slots=True)
class ConfirmContents:
    """What one Confirm packet carries."""

    numbers: list[int]
    earlier: list[OperationId]
    hand_overs: list[HandOverId]

    def __bool__(self) -> bool:
        return bool(self.numbers or self.earlier or self.hand_overs)

    def packet(self) -> packets.Confirm:
        """Makes the Confirm packet."""
        return packets.Confirm(
            self.numbers,
            [packets.OperationRef(*operation) for operation in self.earlier],
            [packets.HandOverRef(*hand_over) for hand_over in self.hand_overs],
        )


@dataclass(slots=True)
class _OpenRead:
    """A read of the current session whose messages are dealt with one by one.

    Attributes:
        undecided: messages that are neither confirmed nor given back.
        unproven: messages of which the service is not known to have heard.
        released: some were given back, so the number as a whole must not be confirmed.
    """

    undecided: set[int]
    unproven: set[int] = field(default_factory=set)
    released: bool = False


class Confirmations:
    """The confirmations that are owed, and how many numbers of the session are open.

    Attributes:
        refused: puts for which a queue was full: the last call that was made before the application knew, and
            the put's number. No call up to that one confirms it.
        open: numbers sent in this session whose confirmation was not sent: what the service limits.
        held: messages that this process has and has not decided on; a takeover must not offer them again.
        due: when what is owed has to be sent, by the session's clock; infinity when nothing is.
        overdue: something waits for a Confirm packet that has waited before, or is of an earlier session.
    """

    def __init__(self, confirm_after: float, wal: WriteAheadLog | None = None) -> None:
        self._confirm_after = confirm_after
        self._wal = wal
        self._session = 0
        self._taken: list[int] = []
        self._earlier: dict[OperationId, None] = {}
        self._single: dict[HandOverId, None] = {}
        self._reads: dict[int, _OpenRead] = {}
        #: Reads of several messages among those taken: what they consist of, should some be given back.
        self._batches: dict[OperationId, list[int]] = {}
        self.open = 0
        self.refused: list[tuple[int, int]] = []
        self.held: set[HandOverId] = set()
        self.due = math.inf
        self.overdue = False

    @property
    def owed(self) -> bool:
        """Tells whether anything waits to be carried."""
        return bool(self._taken or self._earlier or self._single)

    def has_space(self, limit: int) -> bool:
        """Tells whether one more numbered request may be sent, which carries what is owed."""
        return self.open - len(self._taken) < limit

    # What the application does

    def take(self, session: int, number: int, now: float) -> None:
        """The application has the answer to this request."""
        if session == self._session:
            self._taken.append(number)
        else:
            self._earlier[OperationId(session, number)] = None
            self.overdue = True
        if self.due == math.inf:
            self.due = now + self._confirm_after

    def take_refused(self, session: int, number: int, order: int, now: float) -> None:
        """The application knows that a queue was full for this put.

        Calls up to ``order`` were made before, so none of them carries the confirmation: it would end the
        refusal for them.
        """
        if session == self._session:
            self.refused.append((order, number))
        else:
            self.take(session, number, now)

    def take_messages(self, names: Sequence[HandOverId], now: float) -> None:
        """The application has all messages of a read."""
        session, number, _ = names[0]
        self.held.difference_update(names)
        if len(names) > 1:
            self._batches[OperationId(session, number)] = [name.message_id for name in names]
        self.take(session, number, now)

    def hold(self, session: int, number: int, message_ids: Iterable[int]) -> None:
        """The messages of this read will be dealt with one by one."""
        if session == self._session and number not in self._reads:
            ids = set(message_ids)
            self._reads[number] = _OpenRead(ids, set(ids))

    def take_message(self, hand_over: HandOverId, now: float) -> None:
        """The application has this message."""
        self.held.discard(hand_over)
        read = self._read_of(hand_over)
        if read is not None:
            read.undecided.discard(hand_over.message_id)
            if not read.undecided and not read.released:
                del self._reads[hand_over.number]
                self.take(hand_over.session, hand_over.number, now)
                return
        self._single[hand_over] = None
        if hand_over.session != self._session:
            self.overdue = True
        if self.due == math.inf:
            self.due = now + self._confirm_after

    def give_back(self, wanted: Iterable[HandOverId], now: float) -> list[HandOverId]:
        """Returns those of these messages that can still be given back, and takes back their confirmation."""
        given = []
        for hand_over in wanted:
            if (
                hand_over in self.held
                or self._single.pop(hand_over, self) is None
                or self._split(hand_over, now)
            ):
                self.release(hand_over)
                given.append(hand_over)
        return given

    def release(self, hand_over: HandOverId) -> None:
        """This message is about to be given back."""
        self.held.add(hand_over)
        read = self._read_of(hand_over)
        if read is not None:
            read.undecided.discard(hand_over.message_id)
            read.released = True

    def released(self, hand_over: HandOverId) -> None:
        """The service has taken this message back."""
        self.held.discard(hand_over)
        self._proven_message(hand_over)

    # What goes to the service and comes back

    def carry(self, order: int) -> list[int]:
        """Returns the numbers that the next numbered request confirms; they count as carried by it.

        Args:
            order: the request's position among all calls of the client.
        """
        if self.refused:
            self._taken += [number for last, number in self.refused if last < order]
            self.refused = [refused for refused in self.refused if refused[0] >= order]
        if not self._taken:
            return []  # not the list itself, to which later answers are appended
        taken, self._taken = self._taken, []
        self.open -= len(taken)
        if not (self._earlier or self._single):
            self.due = math.inf
        return taken

    def carry_all(self, with_numbers: bool = True) -> ConfirmContents:
        """Returns what the next Confirm packet confirms; it counts as carried by it."""
        contents = ConfirmContents(
            self._taken[:CONFIRM_ITEMS_MAX] if with_numbers else [],
            list(self._earlier)[:CONFIRM_ITEMS_MAX],
            list(self._single)[:CONFIRM_ITEMS_MAX],
        )
        del self._taken[: len(contents.numbers)]
        self.open -= len(contents.numbers)
        for operation in contents.earlier:
            del self._earlier[operation]
        for hand_over in contents.hand_overs:
            del self._single[hand_over]
        self.overdue = bool(self._earlier or self._single)
        if not self.owed:
            self.due = math.inf
        return contents

    def proven_numbers(self, numbers: list[int]) -> None:
        """A success answer proves that these numbers of the session were applied."""
        if self._batches or self._wal is not None:
            for number in numbers:
                self._proven_operation(OperationId(self._session, number))

    def proven(self, contents: ConfirmContents) -> None:
        """A success answer proves that these were applied."""
        self.proven_numbers(contents.numbers)
        for operation in contents.earlier:
            self._proven_operation(operation)
        for hand_over in contents.hand_overs:
            self._proven_message(hand_over)

    def bring_back(self, contents: ConfirmContents, due: float) -> None:
        """These may not have been applied; they are carried again, by themselves no earlier than ``due``."""
        self._taken[:0] = contents.numbers
        self.open += len(contents.numbers)
        self._earlier.update(dict.fromkeys(contents.earlier))
        self._single.update(dict.fromkeys(contents.hand_overs))
        if contents.earlier or contents.hand_overs:
            self.overdue = True
        if contents:
            self.due = min(self.due, due)

    def hurry(self, now: float) -> None:
        """What is owed is due at once."""
        if self.owed:
            self.due = now

    # What happens to sessions

    def session_began(self, session: int) -> None:
        """Requests have the numbers of this session from now on."""
        self._session = session

    def line_is_empty(self, now: float) -> None:
        """All calls have been sent, or are over: what was refused before them need not wait for another."""
        for _, number in self.refused:
            self.take(self._session, number, now)
        self.refused = []

    def session_ended(self) -> None:
        """The connection is lost: what its numbers confirm is confirmed as that of an earlier session."""
        self.line_is_empty(0.0)
        self._earlier.update((OperationId(self._session, number), None) for number in self._taken)
        self._taken = []
        self._reads = {}
        self.open = 0
        self._session = 0
        self.due = math.inf
        self.overdue = bool(self._earlier or self._single)

    def all_owed(self) -> ConfirmContents:
        """Returns all that waits to be carried, once the session has ended."""
        return ConfirmContents([], list(self._earlier), list(self._single))

    def confirms(self, hand_over: HandOverId) -> bool:
        """Tells whether the confirmation of this message waits to be carried."""
        return hand_over in self._single or OperationId(hand_over.session, hand_over.number) in self._earlier

    def keep_listed(
        self, operations: Collection[OperationId], hand_overs: Collection[HandOverId], now: float
    ) -> None:
        """A takeover lists these as unconfirmed: confirmations of anything else were applied."""
        reads = {OperationId(session, number) for session, number, _ in hand_overs}
        self._earlier = {
            operation: None for operation in self._earlier if operation in operations or operation in reads
        }
        self._single = {hand_over: None for hand_over in self._single if hand_over in hand_overs}
        self._batches = {
            operation: ids for operation, ids in self._batches.items() if operation in self._earlier
        }
        self.overdue = bool(self._earlier or self._single)
        self.hurry(now)

    def _split(self, hand_over: HandOverId, now: float) -> bool:
        """Confirms the read of this message message by message instead of whole, if that was not sent yet."""
        session, number, message_id = hand_over
        operation = OperationId(session, number)
        if session == self._session:
            if number not in self._taken:
                return False
            self._taken.remove(number)
        elif self._earlier.pop(operation, self) is self:
            return False
        message_ids = self._batches.pop(operation, [message_id])
        self.hold(session, number, message_ids)
        for other in message_ids:
            if other != message_id:
                self.take_message(HandOverId(session, number, other), now)
        return True

    def _read_of(self, hand_over: HandOverId) -> _OpenRead | None:
        if hand_over.session != self._session:
            return None
        return self._reads.get(hand_over.number)

    def _proven_operation(self, operation: OperationId) -> None:
        self._batches.pop(operation, None)
        if self._wal is not None:
            self._wal.drop_read(operation)

    def _proven_message(self, hand_over: HandOverId) -> None:
        if self._wal is not None:
            self._wal.drop_message(hand_over)
        read = self._read_of(hand_over)
        if read is not None:
            read.unproven.discard(hand_over.message_id)
            if not read.unproven:
                del self._reads[hand_over.number]
                self.open -= 1
