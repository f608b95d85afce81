"""The plans of the installed procedures: index only, rows and pages touched per element bounded.

Counted around the calls themselves, in every state of the tables that has misled a planner: empty when the
plans were made, full, analysed, full of dead rows, seen by an old snapshot, with a backlog elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from procedure_calls import BY_AGE, Calls, Client, Element, Put, Read

BATCH = 64
BACKLOG = 20_000
DEAD = 6_000
# Rows that an index returned, the dead ones it still holds included, and pages, per element of a batch. What
# a call costs at all is spread over a batch of 64; a walk over a backlog or the dead would cost hundreds.
INDEX_ROWS_MAX = 6
PAGES_MAX = 40

SEQUENTIAL = """
SELECT relname, seq_scan FROM pg_stat_xact_all_tables
WHERE schemaname = 'telesto' AND seq_scan > 0 AND relname NOT IN ('installation', 'jobs', 'middlewares')
"""
INDEX_ROWS = """
SELECT coalesce(sum(pg_stat_get_tuples_returned(indexrelid)), 0)
FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
WHERE relnamespace = 'telesto'::regnamespace
"""
BIG_TABLES = (
    *("messages", "deliveries", "operations", "put_states", "take_states", "receiver_states"),
    *("message_keys_0", "message_keys_1", "message_keys_2"),
)


@dataclass(frozen=True)
class Cost:
    """What one call touched, divided by its elements."""

    index_rows: float
    pages: float
    sequential: list[str]


class Workbench:
    """Queues and clients in some state of the tables, and the batches to measure on them."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.clients = [calls.register() for _ in range(8)]
        self.queue = calls.create_queue(self.clients[0])
        self.queues = [calls.create_queue(self.clients[0]) for _ in range(16)]

    def fill(self, count: int, **options: Any) -> None:
        """Put unrecorded messages into the queue."""
        client = self.clients[0]
        for _ in range(count // 2000):
            element = Element(self.queue, **options)
            self.calls.put([Put(client, [element] * 2000, number=0)])

    def drain(self, count: int) -> None:
        """Take unrecorded messages out of the queue."""
        for _ in range(count // 1000):
            self.calls.take([Read(self.clients[0], self.queue, 1000, number=0)])

    def client(self, i: int) -> Client:
        return self.clients[i % len(self.clients)]

    def keyed(self, queues: list[int], turn: int) -> list[Put]:
        """Half of them have been put before."""
        keys = [f"{turn if i % 2 else 0}-{i}" for i in range(BATCH)]
        return [Put(self.client(i), [Element(queues[i % len(queues)], key=keys[i])]) for i in range(BATCH)]

    def puts(self, queues: list[int], **options: Any) -> list[Put]:
        return [Put(self.client(i), [Element(queues[i % len(queues)], **options)]) for i in range(BATCH)]

    def reads(self, queues: list[int], **options: Any) -> list[Read]:
        return [Read(self.client(i), queues[i % len(queues)], **options) for i in range(BATCH)]


@pytest.fixture(autouse=True)
def _no_vacuum(calls: Calls) -> None:
    """Keep autovacuum from tidying up what a test is about."""
    for table in BIG_TABLES:
        calls.connection.execute(f"ALTER TABLE telesto.{table} SET (autovacuum_enabled = false)".encode())


@pytest.fixture
def observer(database_url: str) -> Iterator[Calls]:
    with Calls(database_url) as observer:
        observer.connection.execute("SET stats_fetch_consistency = none")
        yield observer


def empty(bench: Workbench) -> None:
    """Nothing but what the batches themselves bring."""


def full(bench: Workbench) -> None:
    bench.fill(BACKLOG)


def backlog_below(bench: Workbench) -> None:
    bench.fill(BACKLOG, priority=2)


def backlog_above(bench: Workbench) -> None:
    """What is for another reader, of higher priority: nobody here may take it."""
    bench.fill(BACKLOG, priority=9, receiver=1 << 40)


def dead(bench: Workbench) -> None:
    bench.fill(DEAD)
    bench.drain(DEAD)


def many_keys(bench: Workbench) -> None:
    """Keys of all generations: those that the batches put are known, or are older than the window."""
    for table in range(3):
        bench.calls.connection.execute(
            f"INSERT INTO telesto.message_keys_{table} (queue_id, key, message_id, put_at)"
            " SELECT unnest(%s::bigint[]), (i %% 3) || '-' || i, i, now() - interval '1 day'"
            f" FROM generate_series(1, {BACKLOG // 16}) AS i ON CONFLICT DO NOTHING".encode(),
            (bench.queues,),
        )


def dead_before_a_backlog(bench: Workbench) -> None:
    bench.fill(DEAD)
    bench.fill(BACKLOG, priority=5)
    bench.drain(DEAD)


STATES = [empty, full, backlog_below, backlog_above, dead, dead_before_a_backlog, many_keys]
VIEWS = ["as it is", "analysed", "old snapshot"]


@pytest.fixture(params=VIEWS)
def view(request: pytest.FixtureRequest, calls: Calls, other: psycopg.Connection) -> Callable[[], None]:
    """Give what is done to the tables after they were filled."""

    def old_snapshot() -> None:
        """The snapshot stands since before the filling, see `other` below."""

    def analyse() -> None:
        calls.connection.execute("ANALYZE")

    if request.param == "old snapshot":
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM telesto.messages")
        return old_snapshot
    return analyse if request.param == "analysed" else old_snapshot


def measure(calls: Calls, observer: Calls, call: Callable[[], Any]) -> Cost:
    """Run a call in a transaction of its own and divide what it touched by the elements of a batch."""
    _flush(calls)
    before = observer.scalar(INDEX_ROWS)
    pages_before = _pages(calls)
    with calls.connection.transaction():
        call()
        sequential = [f"{row['relname']}: {row['seq_scan']}" for row in calls.query(SEQUENTIAL)]
    pages = _pages(calls) - pages_before
    _flush(calls)
    return Cost((observer.scalar(INDEX_ROWS) - before) / BATCH, pages / BATCH, sequential)


def _flush(calls: Calls) -> None:
    calls.query("SELECT pg_stat_force_next_flush()")
    # The flush takes place when the statement that asked for it is over.
    calls.query("SELECT 1")


def _pages(calls: Calls) -> int:
    _flush(calls)
    calls.query("SELECT pg_stat_clear_snapshot()")
    return int(
        calls.scalar(
            "SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))"
            " FROM pg_statio_user_tables WHERE schemaname = 'telesto'"
        )
    )


def assert_bounded(costs: dict[str, Cost]) -> None:
    for name, cost in costs.items():
        assert cost.sequential == [], name
        assert cost.index_rows <= INDEX_ROWS_MAX, (name, cost)
        assert cost.pages <= PAGES_MAX, (name, cost)


def measure_all(bench: Workbench, calls: Calls, observer: Calls) -> dict[str, Cost]:
    """Measure every procedure of the hot path, puts and takes in turn, confirmations carried along."""
    costs = {}
    confirmed: list[tuple[int, int, int]] = []

    def run(name: str, call: Callable[[], Any]) -> None:
        costs[name] = measure(calls, observer, call)

    def put(requests: list[Put]) -> None:
        answers = calls.put(requests, confirmed)
        confirmed[:] = _identities(requests, [answer.number for answer in answers])

    def take(requests: list[Read]) -> None:
        taken = calls.take(requests, confirmed)
        assert all(answer.messages for answer in taken)
        confirmed[:] = _identities(requests, [answer.number for answer in taken])

    one, many = [bench.queue], bench.queues
    own = {"receiver": bench.clients[1].client_id}
    for turn in range(3):
        run(f"put {turn}", lambda: put(bench.puts(one)))
        run(f"take {turn}", lambda: take(bench.reads(one)))
        run(f"put into many {turn}", lambda: put(bench.puts(many)))
        run(f"put with keys {turn}", lambda turn=turn: put(bench.keyed(many, turn)))
        run(f"take from many {turn}", lambda: take(bench.reads(many)))
    run("put own", lambda: put([Put(bench.clients[1], [Element(bench.queue, **own)]) for _ in range(BATCH)]))
    run("take own", lambda: take([Read(bench.clients[1], bench.queue)] * BATCH))
    run("put for selection", lambda: put(bench.puts(many, context=3, **own)))
    run("take by age", lambda: calls.select([Read(bench.clients[1], q, 4, mode=BY_AGE) for q in many]))
    asker = bench.clients[3]
    response = {"receiver": asker.client_id, "context": 3}
    for turn in range(3):
        run(f"put responses {turn}", lambda: put(bench.puts(one, **response)))
        run(f"take responses {turn}", lambda: calls.select([Read(asker, one[0], context=3)] * BATCH))
    run("put for release", lambda: put(bench.puts(many)))
    (read,) = calls.take([Read(bench.clients[2], many[0], 4)])
    run("release", lambda: calls.release(bench.clients[2], (1, read.number, 0)))
    return costs


def _identities(requests: list[Any], numbers: list[int]) -> list[tuple[int, int, int]]:
    return [
        (request.client.client_id, request.client.session, number)
        for request, number in zip(requests, numbers, strict=True)
    ]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_plans_made_while_the_tables_were_empty_hold(
    calls: Calls, observer: Calls, view: Callable[[], None], state: Callable[[Workbench], None]
) -> None:
    bench = Workbench(calls)
    measure_all(bench, calls, observer)
    state(bench)
    view()
    assert_bounded(measure_all(bench, calls, observer))


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_plans_made_by_a_new_connection_hold(
    calls: Calls,
    observer: Calls,
    view: Callable[[], None],
    state: Callable[[Workbench], None],
    database_url: str,
) -> None:
    bench = Workbench(calls)
    state(bench)
    view()
    with Calls(database_url) as fresh:
        bench.calls = fresh
        assert_bounded(measure_all(bench, fresh, observer))


def test_the_measure_sees_what_it_is_for(calls: Calls, observer: Calls) -> None:
    bench = Workbench(calls)
    dead(bench)
    bench.fill(2000)
    whole = measure(calls, observer, lambda: calls.query("SELECT count(*) FROM telesto.messages"))
    assert whole.sequential == ["messages: 1"]
    without_bound = (
        "SELECT message_id FROM telesto.messages WHERE queue_id = %s AND receiver_id = 0 AND priority = 5"
        " ORDER BY message_id LIMIT 1"
    )
    calls.connection.execute("SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off")
    walk = measure(calls, observer, lambda: calls.query(without_bound, bench.queue))
    assert walk.index_rows > 10 * INDEX_ROWS_MAX


@pytest.fixture
def explained(calls: Calls) -> list[dict[str, Any]]:
    """Give the list that fills with the plans of nested statements; skip where auto_explain is missing."""
    plans: list[dict[str, Any]] = []
    try:
        calls.connection.execute("LOAD 'auto_explain'")
    except psycopg.errors.UndefinedFile:
        pytest.skip("the server has no auto_explain")
    for name, value in (
        ("log_min_duration", "0"),
        ("log_nested_statements", "on"),
        ("log_format", "json"),
        ("log_level", "notice"),
    ):
        calls.connection.execute(f"SET auto_explain.{name} = {value}".encode())
    calls.connection.add_notice_handler(
        lambda notice: plans.append(json.loads((notice.message_primary or "").partition("plan:\n")[2]))
    )
    return plans


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def test_big_tables_are_read_by_key_or_by_place(calls: Calls, explained: list[dict[str, Any]]) -> None:
    bench = Workbench(calls)
    one, own = [bench.queue], bench.clients[1]
    explained.clear()
    for queues in (one, bench.queues):
        calls.put(bench.puts(queues))
        calls.put(bench.puts(queues, receiver=own.client_id))
        taken = calls.take(bench.reads(queues))
        calls.take(bench.reads(queues), [(own.client_id, 1, answer.number) for answer in taken])
        calls.select([Read(own, queue, 2, mode=BY_AGE) for queue in queues])
        calls.release(own, *calls.deliveries(own)[:5])
        calls.numbered("purge_queue", own, queues[0], 100)
    found = [
        (node["Node Type"], node.get("Index Name"))
        for entry in explained
        if "telesto.deliveries WHERE client_id = $1" not in entry["Query Text"]
        for node in nodes(entry["Plan"])
        if node.get("Relation Name") in BIG_TABLES and node["Node Type"] != "ModifyTable"
    ]
    assert len(found) > 30
    assert {kind for kind, _ in found} <= {"Index Scan", "Index Only Scan", "Tid Scan"}
