"""The plans of the procedures of topics, as test_plans does for puts and takes."""

from collections.abc import Callable
from typing import Any

import pytest

from plan_costs import BACKLOG, BATCH, DEAD, Cost, assert_new_plans_hold, assert_old_plans_hold, measure
from procedure_calls import Calls, Client
from topic_calls import ALL, Get, Publish, TopicCalls

CLIENTS = 8
TOPIC = "one"
OTHERS = ["other 1", "other 2"]
CHUNK = 2_000
#: See conftest.
QUIET_TABLES = (
    "topic_messages",
    "positions",
    "topic_states",
    "subscriptions",
    "topics",
    "publisher_states",
    "operations",
)
SEEN_TABLES = ("topic_messages", "positions")
pytestmark = pytest.mark.usefixtures("no_vacuum")


class TopicWorkbench:
    """Clients that all subscribe to all topics, in some state of the tables."""

    def __init__(self, calls: TopicCalls) -> None:
        self.calls = calls
        self.crowded = False
        self.clients = [calls.register() for _ in range(CLIENTS)]
        self.subscriptions = [calls.subscribe(client, TOPIC) for client in self.clients]
        for client in self.clients:
            for topic in OTHERS:
                calls.subscribe(client, topic)
        # Never gets anything, so that what the others have had stays.
        self.absent = calls.register()
        calls.subscribe(self.absent, TOPIC)

    def fill(self, count: int) -> None:
        """Put messages to the one topic."""
        for _ in range(count // CHUNK):
            self.calls.publish([Publish(self.clients[0], TOPIC, [b"body"] * CHUNK, number=0)])

    def catch_up(self) -> None:
        """All but the absent one say that they have what there is."""
        last = self.calls.scalar(
            "SELECT max(last_number) FROM telesto.topic_states JOIN telesto.topics USING (topic_id)"
            " WHERE name = %s",
            TOPIC,
        )
        for client, subscription in zip(self.clients, self.subscriptions, strict=True):
            self.calls.get(client, subscription, (subscription, last, 0))

    def publishes(self, topics: list[str], sequence: int | None = None) -> list[Publish]:
        """A message for each element of a batch."""
        body: Any = b"x" if sequence is None else (b"x", sequence)
        return [Publish(self.clients[i % CLIENTS], topics[i % len(topics)], [body]) for i in range(BATCH)]


def empty(bench: TopicWorkbench) -> None:
    """Nothing but what the batches themselves bring."""


def kept_for_another(bench: TopicWorkbench) -> None:
    """A backlog that all have had but one."""
    bench.fill(BACKLOG)
    bench.catch_up()


def behind(bench: TopicWorkbench) -> None:
    """A backlog that nobody has had."""
    bench.fill(BACKLOG)


def reclaimed(bench: TopicWorkbench) -> None:
    """What all have had is removed, and its dead rows are there."""
    bench.calls.unsubscribe(bench.absent, TOPIC)
    bench.fill(DEAD)
    bench.catch_up()
    assert bench.calls.sweep() >= DEAD


def moved_often(bench: TopicWorkbench) -> None:
    """Each put and get leaves a dead version of a state and a position."""
    subscription, reader = bench.subscriptions[0], bench.clients[0]
    for _ in range(300):
        (number,) = bench.calls.put_to(bench.clients[1], TOPIC, b"x")
        bench.calls.get(reader, subscription, (subscription, number, 0))
    bench.catch_up()


def crowded(bench: TopicWorkbench) -> None:
    """Subscriptions of clients that are not there, to this topic and to as many others."""
    bench.crowded = True
    bench.calls.connection.execute(
        """
        INSERT INTO telesto.clients (client_id, session, mode, name)
        SELECT nextval('telesto.client_ids'), 1, 1, 'crowd ' || i FROM generate_series(1, 500) AS i
        """
    )
    crowd = "SELECT client_id, session, name FROM telesto.clients WHERE starts_with(name, 'crowd')"
    for row in bench.calls.query(crowd):
        client = Client(row["client_id"], row["session"], row["name"])
        for topic in (TOPIC, client.name):
            bench.calls.subscribe(client, topic)


STATES = [empty, kept_for_another, behind, reclaimed, moved_often, crowded]


def measure_all(bench: TopicWorkbench, observer: Calls) -> dict[str, Cost]:
    """Measure the procedures of topics in turn; each batch is so many messages."""
    calls = bench.calls
    costs: dict[str, Cost] = {}
    share = BATCH // CLIENTS
    pairs = list(zip(bench.clients, bench.subscriptions, strict=True))
    seen: dict[int, int] = {}

    def run(name: str, call: Callable[[], Any]) -> None:
        costs[name] = measure(calls, observer, call)

    def publish(requests: list[Publish]) -> None:
        answers = calls.publish(requests)
        assert not any(error for answer in answers for error in answer.errors)

    def fetch(of: Callable[[int], int | str], told: bool) -> None:
        """Gets a share for each client, and confirms what the last get brought."""
        requests = [
            Get(client, of(subscription), [(subscription, seen[subscription], 0)] if told else [], share)
            for client, subscription in pairs
        ]
        for (_, subscription), got in zip(pairs, calls.fetch(requests), strict=True):
            assert len(got.messages) == share, got
            for message in got.messages:
                if message["subscription_id"] == subscription:
                    seen[subscription] = max(seen.get(subscription, 0), message["number"])

    for turn in range(3):
        run(f"publish {turn}", lambda: publish(bench.publishes([TOPIC])))
        run(f"publish to many {turn}", lambda: publish(bench.publishes([TOPIC, *OTHERS])))
        run(f"fetch by name {turn}", lambda: fetch(lambda _: TOPIC, told=False))
        run(f"fetch by subscription {turn}", lambda: fetch(lambda subscription: subscription, told=True))
        run(f"fetch of all topics {turn}", lambda: fetch(lambda _: ALL, told=True))
        if not bench.crowded:
            # What is owed to nobody is found by looking at every subscription.
            run(f"reclaim {turn}", lambda: calls.row("sweep", 1, "topics", BATCH))
        run(f"compare with limits {turn}", lambda: calls.row("sweep", 1, "subscriptions", BATCH))
    newcomer = calls.register()
    run("publish with a sequence", lambda: publish([Publish(newcomer, TOPIC, [(b"x", 1), (b"y", 2)])]))
    run("publish with a sequence again", lambda: publish([Publish(newcomer, TOPIC, [(b"x", 1), (b"z", 3)])]))
    run("subscribe", lambda: calls.subscribe(newcomer, TOPIC, max_behind=10))
    run("nothing to fetch", lambda: calls.get(newcomer, TOPIC))
    run("unsubscribe", lambda: calls.unsubscribe(newcomer, TOPIC))
    return costs


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_plans_made_while_the_tables_were_empty_hold(
    topic_calls: TopicCalls,
    observer: Calls,
    view: Callable[[], None],
    state: Callable[[TopicWorkbench], None],
) -> None:
    assert_old_plans_hold(TopicWorkbench(topic_calls), measure_all, observer, state, view)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_plans_made_by_a_new_connection_hold(
    topic_calls: TopicCalls,
    observer: Calls,
    view: Callable[[], None],
    state: Callable[[TopicWorkbench], None],
    database_url: str,
) -> None:
    assert_new_plans_hold(
        TopicWorkbench(topic_calls), measure_all, observer, state, view, lambda: TopicCalls(database_url)
    )
