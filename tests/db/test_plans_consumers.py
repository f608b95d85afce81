"""The plans of the procedures of consumers, as test_plans does for puts and takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from consumer_calls import Consumer, Consuming
from procedure_calls import Calls
from test_plans import BATCH, DEAD, Cost, Workbench, assert_bounded, backlog_below, dead, empty, full, measure

VIEWS = ["as it is", "analysed", "old snapshot"]


@pytest.fixture(autouse=True)
def _no_vacuum(calls: Calls) -> None:
    """Keep autovacuum from tidying up what a test is about."""
    for table in ("messages", "leases", "operations", "put_states", "take_states"):
        calls.connection.execute(f"ALTER TABLE telesto.{table} SET (autovacuum_enabled = false)".encode())


@pytest.fixture
def observer(database_url: str) -> Iterator[Calls]:
    with Calls(database_url) as observer:
        observer.connection.execute("SET stats_fetch_consistency = none")
        yield observer


@pytest.fixture(params=VIEWS)
def view(request: pytest.FixtureRequest, calls: Calls, other: psycopg.Connection) -> Callable[[], None]:
    """Give what is done to the tables after they were filled."""
    if request.param == "old snapshot":
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM telesto.messages, telesto.leases")

    def look() -> None:
        if request.param == "analysed":
            calls.connection.execute("ANALYZE")

    return look


def dead_leases(bench: Workbench) -> None:
    """What consumers have acknowledged, the same ones that are measured."""
    consuming, consumers = members(bench)
    bench.fill(DEAD)
    for _ in range(DEAD // 2000):
        leases = consuming.claim(*consumers, count=2000 // len(consumers)).leases
        for client in bench.clients:
            consuming.ack(client, *[lease for lease in leases if lease.consumer.client is client], number=0)


STATES = [empty, full, backlog_below, dead, dead_leases]


def members(bench: Workbench) -> tuple[Consuming, list[Consumer]]:
    consuming = Consuming(bench.calls)
    return consuming, [consuming.join(client, bench.queue) for client in bench.clients]


def measure_all(bench: Workbench, calls: Calls, observer: Calls) -> dict[str, Cost]:
    consuming, consumers = members(bench)
    costs = {}

    def run(name: str, call: Callable[[], Any]) -> None:
        costs[name] = measure(calls, observer, call)

    for turn in range(3):
        calls.put(bench.puts([bench.queue]))
        claimed: list[Any] = []
        run(
            f"claim {turn}",
            lambda claimed=claimed: claimed.extend(
                consuming.claim(*consumers, count=BATCH // len(consumers)).leases
            ),
        )
        assert len(claimed) == BATCH
        run(f"sweep {turn}", consuming.sweep)
        for client in bench.clients:
            own = [lease for lease in claimed if lease.consumer.client is client]
            run(
                f"touch {turn} {client.name}",
                lambda client=client, own=own: consuming.touch(client, *own[:4]),
            )
            run(f"nack {turn} {client.name}", lambda client=client, own=own: consuming.nack(client, *own[:2]))
            run(f"SQL ack {turn} {client.name}", lambda own=own: calls.value("ack", *own[2].ref))
            run(f"ack {turn} {client.name}", lambda client=client, own=own: consuming.ack(client, *own[3:]))
    return costs


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
