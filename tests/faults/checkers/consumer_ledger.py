"""The histories of producers and consumers, sorted by what the checks ask for."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..clients.history import DONE, DOUBT, Event, Leased, SettleBegan, SettleEnded, TakeBegan, TakeEnded
from .ledger import Ledger

ACK, TOUCH = "ack", "touch"


@dataclass(slots=True)
class Lease:
    """One lease of a message that an application had.

    Attributes:
        outcome: of its acknowledgement; DOUBT while it has not returned; None without one.
        answered_at: when the application answered, by whatever but a touch; infinity if it did not.
        held_at: when something was called that the service did because the lease was not over yet.
    """

    take: TakeEnded
    leased: Leased
    outcome: str | None = None
    answered_at: float = math.inf
    held_at: float = -math.inf


class ConsumerLedger(Ledger):
    """Sorts the events of producers and consumers.

    Attributes:
        leases: by message, by lease.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.leases: dict[int, dict[int, Lease]] = defaultdict(dict)
        super().__init__(events)

    def all_leases(self) -> Iterator[Lease]:
        """Every lease of every message."""
        for leases in self.leases.values():
            yield from leases.values()

    def enter(self, event: Event) -> None:
        """Takes note of takes and answers too."""
        match event:
            case TakeBegan():
                self.process(event).began["take", event.number] = event
            case TakeEnded():
                self.process(event).returned["take", event.number] = event
                for leased in event.messages:
                    self._leased(event, leased)
            case SettleBegan():
                self._settle_began(event)
            case SettleEnded():
                self._settle_ended(event)
            case _:
                super().enter(event)

    def _leased(self, event: TakeEnded, leased: Leased) -> None:
        leases = self.leases[leased.message_id]
        if leased.lease_id in leases:
            self.problems.append(f"doubled: lease {leased.lease_id} of {leased.message_id} came twice")
        leases[leased.lease_id] = Lease(event, leased)

    def _settle_began(self, event: SettleBegan) -> None:
        self.process(event).began["settle", event.number] = event
        lease = self.leases[event.message_id][event.lease_id]
        if event.what == ACK:
            lease.outcome = DOUBT
        if event.what != TOUCH:
            lease.answered_at = event.at

    def _settle_ended(self, event: SettleEnded) -> None:
        process = self.process(event)
        process.returned["settle", event.number] = event
        lease = self.leases[event.message_id][event.lease_id]
        if event.what == ACK:
            lease.outcome = event.outcome
        if event.outcome == DONE:
            lease.held_at = max(lease.held_at, process.began["settle", event.number].at)
