"""The plans of the installed procedures: index only, rows and pages touched per element bounded.

Counted around the calls themselves, in every state of the tables that has misled a planner: empty when the
plans were made, full, analysed, full of dead rows, seen by an old snapshot, with a backlog elsewhere.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from plan_bench import Workbench, backlog_below, dead, empty, full
from plan_costs import (
    BACKLOG,
    BATCH,
    DEAD,
    INDEX_ROWS_MAX,
    Cost,
    assert_new_plans_hold,
    assert_old_plans_hold,
    measure,
)
from procedure_calls import BY_AGE, Calls, Element, Put, Read

pytestmark = pytest.mark.usefixtures("no_vacuum")

BIG_TABLES = (
    *("messages", "deliveries", "operations", "put_states", "take_states", "receiver_states"),
    *("message_keys_0", "message_keys_1", "message_keys_2"),
)
#: See conftest.
QUIET_TABLES = BIG_TABLES
SEEN_TABLES = ("messages",)


def backlog_above(bench: Workbench) -> None:
    """What is for another reader, of higher priority: nobody here may take it."""
    bench.fill(BACKLOG, priority=9, receiver=1 << 40)


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


def measure_all(bench: Workbench, observer: Calls) -> dict[str, Cost]:
    """Measure every procedure of the hot path, puts and takes in turn, confirmations carried along."""
    calls, costs = bench.calls, {}
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
    run("statistics", lambda: calls.statistics(bench.queue))
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
    assert_old_plans_hold(Workbench(calls), measure_all, observer, state, view)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_plans_made_by_a_new_connection_hold(
    calls: Calls,
    observer: Calls,
    view: Callable[[], None],
    state: Callable[[Workbench], None],
    open_calls: Callable[[], Calls],
) -> None:
    assert_new_plans_hold(Workbench(calls), measure_all, observer, state, view, open_calls)


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


TOKENS = re.compile(r"\\.|{(\w+)|(})|:(?:\w+\.)*scanrelid\s+(\d+)|:relid\s+(\d+)", re.DOTALL)


def scans(plan: str) -> Iterator[tuple[str, int]]:
    """Yield the kind of each scan of a table in a plan as PostgreSQL logs it, with the table's oid."""
    opened: list[str] = []
    found: list[tuple[str, int]] = []
    tables: list[int] = []
    for name, closed, scanned, table in TOKENS.findall(plan):
        if name:
            opened.append(name)
            tables += [0] * (name == "RANGETBLENTRY")
        elif closed:
            opened.pop()
        elif scanned:
            found.append((opened[-1], int(scanned)))
        elif table and opened[-1] == "RANGETBLENTRY":
            tables[-1] = int(table)
    for kind, place in found:
        yield kind, tables[place - 1]


@pytest.fixture
def planned(calls: Calls) -> list[str]:
    """Give the list that fills with the plans of the procedures' statements, when each is made.

    By the server itself and not by auto_explain, which is not everywhere.
    """
    plans: list[str] = []
    calls.connection.execute("SET debug_print_plan = on; SET client_min_messages = log")

    def keep(notice: psycopg.errors.Diagnostic) -> None:
        # Statements of the test itself have no context.
        if notice.message_primary == "plan:" and notice.context:
            plans.append(notice.message_detail or "")

    calls.connection.add_notice_handler(keep)
    return plans


def test_the_plans_of_nested_statements_show_their_scans(calls: Calls, planned: list[str]) -> None:
    calls.connection.execute(
        "SET enable_indexscan = off; SET enable_bitmapscan = off;"
        "DO $$ BEGIN PERFORM FROM telesto.messages m, telesto.queues q WHERE m.ctid = '(0,1)'; END $$"
    )
    (plan,) = planned
    oid = {
        name: calls.query(f"SELECT 'telesto.{name}'::regclass::oid::int AS oid")[0]["oid"]
        for name in ("messages", "queues")
    }
    assert set(scans(plan)) == {("TIDSCAN", oid["messages"]), ("SEQSCAN", oid["queues"])}


def test_big_tables_are_read_by_key_or_by_place(calls: Calls, planned: list[str]) -> None:
    bench = Workbench(calls)
    one, own = [bench.queue], bench.clients[1]
    for turn, queues in enumerate((one, bench.queues)):
        calls.put(bench.puts(queues))
        calls.put(bench.keyed(queues, turn))
        calls.put(bench.puts(queues, receiver=own.client_id))
        taken = calls.take(bench.reads(queues))
        calls.take(bench.reads(queues), [(own.client_id, 1, answer.number) for answer in taken])
        calls.select([Read(own, queue, 2, mode=BY_AGE) for queue in queues])
        calls.release(own, *calls.deliveries(own)[:5])
        calls.numbered("purge_queue", own, queues[0], 100)
    tables = "SELECT oid::int, relname::text FROM pg_class WHERE relnamespace = 'telesto'::regnamespace"
    names = {row["oid"]: row["relname"] for row in calls.query(tables)}
    found = [
        (kind, names[table])
        for plan in planned
        for kind, table in scans(plan)
        if names.get(table) in BIG_TABLES
    ]
    assert {table for _, table in found} == set(BIG_TABLES)
    assert len(found) > 30
    assert {kind for kind, _ in found} <= {"INDEXSCAN", "INDEXONLYSCAN", "TIDSCAN"}
