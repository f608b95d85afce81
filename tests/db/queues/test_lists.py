"""Lists for people: what the procedures tell of queues, clients, consumers and middlewares."""

from datetime import UTC, datetime

from consumer_calls import Consuming
from procedure_calls import FULL, READ_ONLY, Calls, Client
from topic_calls import TopicCalls

#: What is counted one by one is counted so far.
COUNTED_MAX = 1_000


def test_queues_are_listed_with_what_waits_in_them(calls: Calls, client: Client) -> None:
    first, second, third = (calls.create_queue(client, name=name) for name in ("a_1", "ab1", "b1"))
    calls.put_bodies(client, first, b"1", b"2", b"3")
    assert len(calls.take_one(client, first, max_messages=2).messages) == 2
    calls.put_bodies(client, third, b"for one", receiver=client.client_id)

    def listed(after: int, most: int, pattern: str | None) -> list[tuple[int, int]]:
        rows = calls.rows("list_queue_figures", after, most, pattern)
        return [(row["queue_id"], row["depth"]) for row in rows]

    assert listed(0, 10, None) == [(first, 1), (second, 0), (third, 1)]
    assert listed(0, 2, None) == [(first, 1), (second, 0)]
    assert listed(second, 2, None) == [(third, 1)]
    assert listed(third, 2, None) == []
    assert listed(0, 10, "a_1") == [(first, 1), (second, 0)]
    assert listed(0, 10, "a\\_1") == [(first, 1)]
    assert listed(first, 1, "%1") == [(second, 0)]
    assert [row["name"] for row in calls.rows("list_queue_figures", 0, 10, "b%")] == ["b1"]


def test_clients_are_listed_with_what_they_hold(topic_calls: TopicCalls) -> None:
    calls = topic_calls
    holder, reader = calls.register("holder", FULL), calls.register("reader", READ_ONLY)
    queue = calls.create_queue(holder)
    calls.put_bodies(holder, queue, b"1", b"2", b"3")
    calls.take_one(holder, queue, max_messages=2)
    calls.subscribe(holder, "news")
    first, second = calls.rows("list_client_figures", 0, 10, None)
    assert (first["client_id"], first["name"], first["mode"]) == (holder.client_id, "holder", FULL)
    assert (first["unconfirmed"], first["subscriptions"], first["temporary"]) == (2, 1, False)
    assert (second["client_id"], second["name"], second["mode"]) == (reader.client_id, "reader", READ_ONLY)
    assert (second["unconfirmed"], second["subscriptions"]) == (0, 0)
    assert abs((datetime.now(UTC) - first["session_at"]).total_seconds()) < 3600
    for after, most, pattern, names in (
        (0, 1, None, ["holder"]),
        (holder.client_id, 1, None, ["reader"]),
        (0, 10, "r%", ["reader"]),
        (0, 10, "%", ["holder", "reader"]),
        (reader.client_id, 10, "%", []),
    ):
        rows = calls.rows("list_client_figures", after, most, pattern)
        assert [row["name"] for row in rows] == names


def test_what_a_client_holds_is_counted_up_to_a_bound(calls: Calls, client: Client, queue: int) -> None:
    for _ in range(COUNTED_MAX // 250 + 1):
        calls.put_bodies(client, queue, *[b""] * 250)
        assert len(calls.take_one(client, queue, max_messages=250).messages) == 250
    (row,) = calls.rows("list_client_figures", 0, 10, None)
    assert row["unconfirmed"] == COUNTED_MAX


def test_consumers_are_listed_of_one_queue_or_of_all(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    other, name = calls.create_queue(client), calls.row("get_queue_name", queue)["queue_name"]
    one, two, three = (consuming.join(client, each) for each in (queue, other, queue))
    calls.put_bodies(client, queue, b"1")
    assert len(consuming.claim(three).leases) == 1
    consuming.change(one, paused=True)
    consuming.change(two, slow=True)
    rows = calls.rows("list_consumers", 0, 10, None)
    assert [row["consumer_id"] for row in rows] == [one.consumer_id, two.consumer_id, three.consumer_id]
    assert [(row["leases"], row["paused"], row["slow"]) for row in rows] == [
        (0, True, False),
        (0, False, True),
        (1, False, False),
    ]
    first = rows[0]
    assert (first["queue_id"], first["queue"], first["client"]) == (queue, name, client.name)
    assert (first["client_id"], first["middleware_id"]) == (client.client_id, consuming.middleware)
    for after, most, of, found in (
        (0, 10, queue, [one, three]),
        (0, 1, queue, [one]),
        (one.consumer_id, 10, queue, [three]),
        (one.consumer_id, 1, None, [two]),
        (0, 10, other, [two]),
        (0, 10, 1 << 40, []),
    ):
        rows = calls.rows("list_consumers", after, most, of)
        assert [row["consumer_id"] for row in rows] == [each.consumer_id for each in found]


def test_middlewares_are_listed_with_their_consumers(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    second = Consuming(calls, "127.0.0.1:7002")
    for _ in range(2):
        second.join(client, queue)
    rows = calls.rows("list_middlewares", 0, 10)
    assert [(row["middleware_id"], row["address"], row["consumers"]) for row in rows] == [
        (consuming.middleware, "127.0.0.1:7001", 0),
        (second.middleware, "127.0.0.1:7002", 2),
    ]
    assert all(row["version"] == "1.0" and row["heartbeat_at"] >= row["started_at"] for row in rows)
    assert [row["middleware_id"] for row in calls.rows("list_middlewares", 0, 1)] == [consuming.middleware]
    (row,) = calls.rows("list_middlewares", consuming.middleware, 10)
    assert row["middleware_id"] == second.middleware
