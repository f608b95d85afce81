"""Random calls about topics against a model in memory: who is owed what, once, and in which order."""

import os
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from procedure_calls import SESSION_FENCED, Client
from telesto.db.checks.findings import find_contradictions
from topic_calls import (
    ALL,
    ALREADY_SUBSCRIBED,
    NOT_SUBSCRIBED,
    POSITION_UNKNOWN,
    SEQUENCE_GAP,
    SUBSCRIPTION_DROPPED,
    Get,
    Got,
    Publish,
    TopicCalls,
)

# How many sequences; a longer run is a matter of this variable.
EXAMPLES = int(os.environ.get("TELESTO_TEST_TOPIC_EXAMPLES", "40"))
STEPS = 50
TOPICS = 3
MAX_BEHIND = 4

topics = st.integers(0, TOPICS - 1)
_examples = count()


@dataclass
class ModelTopic:
    name: str
    arrivals: list[tuple[int, bytes]] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return len(self.arrivals)


@dataclass
class ModelSubscription:
    subscription_id: int
    topic: int
    start: int
    position: int
    limited: bool
    got: int = 0
    dropped: bool = False

    def behind(self, topic: ModelTopic) -> int:
        return topic.last - self.position


class TopicMachine(RuleBasedStateMachine):
    """The procedures and the model, step by step."""

    clients = Bundle("clients")

    def __init__(self, calls: TopicCalls, seen: Counter[str]) -> None:
        super().__init__()
        self.calls = calls
        self.seen = seen
        prefix = f"example {next(_examples)} topic"
        self.topics = [ModelTopic(f"{prefix} {n}") for n in range(TOPICS)]
        self.subscriptions: dict[tuple[int, int], ModelSubscription] = {}
        self.clock = count()

    # ------------------------------------------------------------------ clients

    @initialize(target=clients)
    def begin(self) -> Any:
        """Three clients, each of which subscribes to all topics but one."""
        first = [self.calls.register() for _ in range(3)]
        for n, client in enumerate(first):
            for topic in range(TOPICS):
                if topic != n:
                    self.subscribe(client, topic, limited=False)
        return multiple(*first)

    @rule(target=clients)
    def register(self) -> Client:
        return self.calls.register()

    @rule(target=clients, client=consumes(clients))
    def take_over(self, client: Client) -> Client:
        assert self.calls.publish([Publish(client, self.topics[0].name, [b""], session=client.session + 1)])[
            0
        ].errors == [SESSION_FENCED]
        after = self.calls.take_over(client)
        stale = self.calls.get(client, ALL)
        assert stale.error == SESSION_FENCED
        return after

    @precondition(lambda self: len(self.bundle("clients")) > 3)
    @rule(client=consumes(clients))
    def delete(self, client: Client) -> None:
        assert self.calls.numbered("delete_client", client)["error"] is None
        for key in [key for key in self.subscriptions if key[0] == client.client_id]:
            del self.subscriptions[key]
        for topic in self.topics:
            topic.sequences.pop(client.client_id, None)
        self.seen["delete"] += 1

    # ------------------------------------------------------------------ subscriptions

    @rule(client=clients, topic=topics, limited=st.booleans())
    def subscribe(self, client: Client, topic: int, limited: bool) -> None:
        limit = MAX_BEHIND if limited else None
        row = self.calls.numbered("subscribe", client, self.topics[topic].name, limit, None, limited)
        key = client.client_id, topic
        existing = self.subscriptions.get(key)
        if existing is not None and not existing.dropped:
            assert (row["error"], row["subscription_id"]) == (ALREADY_SUBSCRIBED, existing.subscription_id)
            return
        assert row["error"] is None
        last = self.topics[topic].last
        self.subscriptions[key] = ModelSubscription(row["subscription_id"], topic, last, last, limited)
        self.seen["subscribe anew" if existing else "subscribe"] += 1

    @rule(client=clients, topic=topics)
    def unsubscribe(self, client: Client, topic: int) -> None:
        existing = self.subscriptions.pop((client.client_id, topic), None)
        error = self.calls.unsubscribe(client, self.topics[topic].name)
        assert error == (None if existing else NOT_SUBSCRIBED)
        if existing is not None:
            assert self.calls.get(client, existing.subscription_id).error == NOT_SUBSCRIBED
            self.seen["unsubscribe"] += 1

    # ------------------------------------------------------------------ putting

    @rule(
        requests=st.lists(
            st.tuples(
                clients, topics, st.lists(st.one_of(st.none(), st.integers(-1, 2)), min_size=1, max_size=3)
            ),
            min_size=1,
            max_size=4,
        )
    )
    def put(self, requests: list[tuple[Client, int, list[int | None]]]) -> None:
        """Puts plain messages, and numbered ones whose sequence is so far beyond the last."""
        arrival = next(self.clock)
        asked: list[Publish] = []
        expected: list[list[tuple[int, int | None, bool]]] = []
        for client, index, steps in requests:
            topic = self.topics[index]
            bodies: list[Any] = []
            results = []
            for step in steps:
                body = b"%d" % next(self.clock)
                last = topic.sequences.get(client.client_id, 0)
                sequence = None if step is None else max(1, last + step)
                bodies.append(body if sequence is None else (body, sequence))
                results.append(self._put_one(topic, client, body, sequence, arrival))
            asked.append(Publish(client, topic.name, bodies))
            expected.append(results)
        answers = self.calls.publish(asked)
        for answer, results in zip(answers, expected, strict=True):
            found = zip(answer.numbers, answer.errors, answer.duplicates, strict=True)
            for (number, error, duplicate), (wanted, refusal, repeated) in zip(found, results, strict=True):
                assert (error, duplicate) == (refusal, repeated)
                assert repeated or number == wanted

    def _put_one(
        self, topic: ModelTopic, client: Client, body: bytes, sequence: int | None, arrival: int
    ) -> tuple[int, int | None, bool]:
        last = topic.sequences.get(client.client_id, 0)
        if sequence is not None and sequence <= last:
            self.seen["duplicate"] += 1
            return 0, None, True
        if sequence is not None and sequence > last + 1:
            self.seen["gap"] += 1
            return last + 1, SEQUENCE_GAP, False
        if sequence is not None:
            topic.sequences[client.client_id] = sequence
        topic.arrivals.append((arrival, body))
        self.seen["put"] += 1
        return topic.last, None, False

    # ------------------------------------------------------------------ getting

    @rule(
        client=clients,
        topic=st.one_of(st.none(), topics),
        confirm=st.sampled_from(["nothing", "what was got", "less", "too much"]),
        keep=st.booleans(),
        by_name=st.booleans(),
        most=st.integers(1, 4),
    )
    def get(
        self, client: Client, topic: int | None, confirm: str, keep: bool, by_name: bool, most: int
    ) -> None:
        """Gets; with ``keep`` off the answer is lost, so that the client has nothing of it."""
        mine = {index: sub for (owner, index), sub in self.subscriptions.items() if owner == client.client_id}
        positions = [
            position for sub in mine.values() if (position := self._position(sub, confirm)) is not None
        ]
        wanted = mine if topic is None else {index: sub for index, sub in mine.items() if index == topic}
        of: int | str = ALL
        if topic is not None:
            known = topic in mine and not by_name
            of = mine[topic].subscription_id if known else self.topics[topic].name
        (got,) = self.calls.fetch([Get(client, of, positions, max_messages=most)])
        refusal = self._refusal(mine, wanted, confirm, positions)
        assert got.error == refusal
        if refusal is not None:
            self.seen[f"refused {refusal}"] += 1
            return
        self._check(got, wanted, positions, most, keep)

    def _position(self, sub: ModelSubscription, confirm: str) -> tuple[int, int, int] | None:
        if confirm == "nothing" or (sub.got <= sub.position and confirm != "too much"):
            return None
        told = {"what was got": sub.got, "less": max(sub.position, sub.got - 1)}.get(confirm)
        if told is None:
            told = self.topics[sub.topic].last + 1
        return sub.subscription_id, told, sub.got if confirm == "less" else 0

    def _refusal(
        self,
        mine: dict[int, ModelSubscription],
        wanted: dict[int, ModelSubscription],
        confirm: str,
        positions: list[tuple[int, int, int]],
    ) -> int | None:
        if any(not sub.dropped for sub in mine.values()) and confirm == "too much" and positions:
            return POSITION_UNKNOWN
        if not wanted:
            return NOT_SUBSCRIBED
        if any(sub.dropped for sub in wanted.values()):
            return SUBSCRIPTION_DROPPED
        return None

    def _check(
        self,
        got: Got,
        wanted: dict[int, ModelSubscription],
        positions: list[tuple[int, int, int]],
        most: int,
        keep: bool,
    ) -> None:
        told = {subscription_id: (confirmed, after) for subscription_id, confirmed, after in positions}
        for sub in self.subscriptions.values():
            if sub.subscription_id in told and not sub.dropped:
                sub.position = max(sub.position, told[sub.subscription_id][0])
        owed = []
        for sub in wanted.values():
            topic = self.topics[sub.topic]
            begin = max(sub.position, told.get(sub.subscription_id, (0, 0))[1])
            for number in range(begin + 1, topic.last + 1):
                arrival, body = topic.arrivals[number - 1]
                owed.append((arrival, self._topic_id(topic), number, body, sub))
        owed.sort(key=lambda each: each[:3])
        assert [(m["subscription_id"], m["number"], m["body"]) for m in got.messages] == [
            (sub.subscription_id, number, body) for _, _, number, body, sub in owed[:most]
        ]
        self.seen["got" if got.messages else "nothing"] += 1
        if keep:
            for _, _, number, _, sub in owed[:most]:
                sub.got = max(sub.got, number)

    def _topic_id(self, topic: ModelTopic) -> int:
        return int(self.calls.scalar("SELECT topic_id FROM telesto.topics WHERE name = %s", topic.name))

    # ------------------------------------------------------------------ what runs beside

    @rule(chunk=st.integers(1, 5))
    def reclaim(self, chunk: int) -> None:
        self.calls.sweep("topics", chunk)
        for index, topic in enumerate(self.topics):
            owed = [sub.position for sub in self._live(index)]
            lowest = min(owed, default=topic.last)
            assert all(number > lowest for number in self.calls.stored(topic.name))
        self.seen["reclaim"] += 1

    @rule()
    def drop_those_that_lag(self) -> None:
        self.calls.sweep("subscriptions", 3)
        for index, topic in enumerate(self.topics):
            for sub in self._live(index):
                if sub.limited and sub.behind(topic) > MAX_BEHIND:
                    sub.dropped = True
                    self.seen["drop"] += 1

    def _live(self, index: int) -> list[ModelSubscription]:
        return [sub for (_, topic), sub in self.subscriptions.items() if topic == index and not sub.dropped]

    def teardown(self) -> None:
        """What is stored behind the lowest position is whole, and nobody's rows are left."""
        for index, topic in enumerate(self.topics):
            live = self._live(index)
            for sub in live:
                assert self.calls.position(sub.subscription_id) == sub.position
            if live:
                lowest = min(sub.position for sub in live)
                stored = set(self.calls.stored(topic.name))
                assert stored >= set(range(lowest + 1, topic.last + 1))


def test_topics_agree_with_the_model(topic_calls: TopicCalls, database_url: str) -> None:
    seen: Counter[str] = Counter()
    run_state_machine_as_test(
        lambda: TopicMachine(topic_calls, seen),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    with psycopg.connect(database_url) as connection:
        assert find_contradictions(connection) == []
    # What never came about was not compared.
    for kind in ("put", "got", "nothing", "unsubscribe", "reclaim"):
        assert seen[kind] > 0, seen
