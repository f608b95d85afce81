"""The histories of publishers and subscribers, sorted by what the checks ask for."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..clients.history import (
    DONE,
    DOUBT,
    REFUSED,
    Confirmed,
    Event,
    GetBegan,
    GetEnded,
    Got,
    Noted,
    PublishBegan,
    PublishEnded,
    Recovered,
    Released,
    SubscribeBegan,
    Subscribed,
    UnsubscribeBegan,
)
from .calls import Calls


@dataclass(slots=True)
class Publish:
    """A message that a client tried to put to a topic, several times if it has a sequence.

    Attributes:
        place: position among all puts of the client's processes.
        began: the first call's event.
        ended: of each call that returned, in order.
        calls: how often it was tried.
        told: how often its client was told what became of it.
    """

    place: int
    began: PublishBegan
    ended: list[PublishEnded] = field(default_factory=list)
    calls: int = 1
    told: int = 0

    @property
    def outcome(self) -> str:
        """DONE, REFUSED or DOUBT."""
        outcomes = [event.outcome for event in self.ended]
        if DONE in outcomes:
            return DONE
        refused = outcomes.count(REFUSED) == self.calls
        return REFUSED if refused else DOUBT

    @property
    def done_at(self) -> float:
        """When it was known to be done first; infinity if it never was."""
        return min((event.at for event in self.ended if event.outcome == DONE), default=float("inf"))


@dataclass(slots=True)
class Receipt:
    """A message that an application got by a subscription.

    Attributes:
        released: the application wants it, and what follows, again.
        proven: the service is known to have heard of its confirmation.
        noted: the client's state is known to have it.
    """

    get: GetEnded
    got: Got
    released: bool = False
    proven: bool = False
    noted: bool = False


@dataclass(slots=True)
class Life:
    """One subscription.

    Attributes:
        began_at: it was not there before; minus infinity when nobody saw it begin.
        known_at: it was there from then on.
        left_at: the client may have ended it then; infinity if it never tried.
        receipts: in the order of time.
    """

    client: str
    topic: str
    subscription_id: int
    began_at: float
    known_at: float
    left_at: float = float("inf")
    receipts: list[Receipt] = field(default_factory=list)


class TopicLedger(Calls):
    """Sorts the events of all processes.

    Attributes:
        publishes: by key.
        lives: the subscriptions by id.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        super().__init__()
        self.publishes: dict[str, Publish] = {}
        self.lives: dict[int, Life] = {}
        self._places: dict[str, int] = defaultdict(int)
        self._begins: dict[tuple[str, str], float] = {}
        self._gets: dict[tuple[str, int, int], list[Receipt]] = {}
        self._unproven: dict[tuple[str, int], list[tuple[Confirmed, list[Receipt]]]] = defaultdict(list)
        for event in sorted(events, key=lambda event: event.at):
            self._enter(event)

    def _enter(self, event: Event) -> None:
        match event:
            case PublishBegan():
                self._publish_began(event)
            case PublishEnded():
                self.publishes[event.key].ended.append(event)
                self.process(event).returned["publish", event.number] = event
            case Recovered():
                self._recovered(event)
            case Noted():
                for receipt in self._gets[event.client, event.run, event.number]:
                    receipt.noted = True
            case SubscribeBegan():
                self._begins[event.client, event.topic] = event.at
            case Subscribed():
                self._life(event, event.topic, event.subscription_id)
            case UnsubscribeBegan():
                self._unsubscribe_began(event)
            case GetBegan():
                self.process(event).began["get", event.number] = event
            case GetEnded():
                self._get_ended(event)
            case Confirmed():
                receipts = self._gets[event.client, event.run, event.number]
                self._unproven[event.client, event.run].append((event, receipts))
            case Released():
                for receipt in self._gets[event.client, event.run, event.number]:
                    receipt.released = True
            case _:
                self.enter(event)

    def _recovered(self, event: Recovered) -> None:
        who = f"{event.client}.{event.run}"
        publish = self.publishes.get(event.key)
        if publish is None or publish.began.topic != event.topic:
            self.problems.append(f"{who} was told of {event.key}, which nobody put")
            return
        publish.told += 1
        if event.outcome == DOUBT:
            self.problems.append(f"in doubt: {event.key} ({event.error}), although {who} has its state")
            return
        if publish.outcome not in (DOUBT, event.outcome):
            self.problems.append(f"told: {event.key} is {event.outcome}, but was {publish.outcome}")
        number = publish.began.number
        values = (event.topic, event.outcome, event.message_id, event.error)
        publish.ended = [ended for ended in publish.ended if ended.outcome != DOUBT]
        publish.ended.append(PublishEnded(event.client, event.run, event.at, number, event.key, *values))

    def _publish_began(self, event: PublishBegan) -> None:
        self.process(event).began["publish", event.number] = event
        known = self.publishes.get(event.key)
        if known is not None:
            known.calls += 1
            return
        self._places[event.client] += 1
        self.publishes[event.key] = Publish(self._places[event.client], event)

    def _life(self, event: Event, topic: str, subscription_id: int) -> Life:
        life = self.lives.get(subscription_id)
        if life is None:
            began_at = self._begins.get((event.client, topic), float("-inf"))
            life = Life(event.client, topic, subscription_id, began_at, event.at)
            self.lives[subscription_id] = life
        return life

    def _unsubscribe_began(self, event: UnsubscribeBegan) -> None:
        for life in self.lives.values():
            if (life.client, life.topic) == (event.client, event.topic):
                life.left_at = min(life.left_at, event.at)

    def _get_ended(self, event: GetEnded) -> None:
        process = self.process(event)
        process.returned["get", event.number] = event
        began = process.began["get", event.number]
        if not event.error:
            self._prove(event, began)
        receipts = [Receipt(event, got) for got in event.messages]
        self._gets[event.client, event.run, event.number] = receipts
        for receipt in receipts:
            got = receipt.got
            self._life(event, got.topic, got.subscription_id).receipts.append(receipt)

    def _prove(self, event: GetEnded, began: GetBegan) -> None:
        """A get that was called after a confirmation, and went well in the same session, carried it."""
        kept = []
        for confirmed, receipts in self._unproven[event.client, event.run]:
            if confirmed.at < began.at and confirmed.session == began.session == event.session:
                for receipt in receipts:
                    receipt.proven = True
            else:
                kept.append((confirmed, receipts))
        self._unproven[event.client, event.run] = kept
