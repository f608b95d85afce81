"""The plans of claims of partitions, and of sweeps of what is delayed or expires."""

from collections.abc import Callable
from typing import Any

import pytest

from consumer_calls import Consumer, Consuming
from plan_bench import Workbench, members
from plan_costs import BATCH, DEAD, Cost, measure
from procedure_calls import Calls, Element, Put

pytestmark = pytest.mark.usefixtures("no_vacuum")
#: See conftest.
QUIET_TABLES = (
    "messages",
    "keyed_messages",
    "delayed_messages",
    "partition_arrivals",
    "partitions",
    "partition_states",
    "leases",
    "put_states",
    "take_states",
)
SEEN_TABLES = ("keyed_messages", "leases", "partitions")
KEYS = 100
#: Rows of indexes that a message may cost on its way: the queue's arrivals, its partition, itself, its lease.
INDEX_ROWS_MAX = 30
PAGES_MAX = 120
HOUR_MS = 3_600_000


def put_keyed(bench: Workbench, count: int) -> None:
    elements = [Element(bench.queue, partition=f"key {i % KEYS}") for i in range(count)]
    for start in range(0, count, 2000):
        bench.calls.put([Put(bench.clients[0], elements[start : start + 2000], number=0)])


def claim(consuming: Consuming, consumers: list[Consumer]) -> list[Any]:
    return consuming.claim(*consumers, count=BATCH // len(consumers)).leases


def empty(bench: Workbench) -> None:
    """Nothing was there before."""


def backlog(bench: Workbench) -> None:
    """Partitions hold more than is claimed."""
    put_keyed(bench, DEAD)


def blocked(bench: Workbench) -> None:
    """Most partitions wait for what is leased of them, or for their time."""
    put_keyed(bench, DEAD)
    elements = [Element(bench.queue, partition=f"later {i}", delay_ms=HOUR_MS) for i in range(2000)]
    bench.calls.put([Put(bench.clients[0], elements, number=0)])
    consuming, consumers = members(bench)
    while consuming.claim(*consumers, count=200).more:
        pass


def consumed(bench: Workbench) -> None:
    """All that there was is gone, and its entries are dead."""
    put_keyed(bench, DEAD)
    consuming, consumers = members(bench)
    while leases := consuming.claim(*consumers, count=200).leases:
        for client in bench.clients:
            own = [lease for lease in leases if lease.consumer.client is client]
            if own:
                consuming.ack(client, *own, number=0)
    consuming.leave(*consumers)


@pytest.mark.parametrize("state", [empty, backlog, blocked, consumed], ids=lambda state: state.__name__)
def test_a_claim_touches_what_it_hands_out(
    calls: Calls, observer: Calls, view: Callable[[], None], state: Callable[[Workbench], None]
) -> None:
    bench = Workbench(calls)
    state(bench)
    consuming, consumers = members(bench)
    view()
    costs: dict[str, Cost] = {}
    for turn in range(6):
        costs[f"put {turn}"] = measure(calls, observer, lambda: put_keyed(bench, BATCH))
        claimed: list[Any] = []
        costs[f"claim {turn}"] = measure(
            calls, observer, lambda claimed=claimed: claimed.extend(claim(consuming, consumers))
        )
        for client in bench.clients:
            own = [lease for lease in claimed if lease.consumer.client is client]
            if own:
                costs[f"nack {turn} {client.name}"] = measure(
                    calls, observer, lambda client=client, own=own: consuming.nack(client, own[-1])
                )
                costs[f"ack {turn} {client.name}"] = measure(
                    calls, observer, lambda client=client, own=own: consuming.ack(client, *own)
                )
        costs[f"sweep {turn}"] = measure(calls, observer, lambda: consuming.sweep("partitions"))
    for name, cost in list(costs.items()):
        assert cost.sequential == [], name
        if name.startswith("claim") and name > "claim 2":
            assert cost.index_rows <= INDEX_ROWS_MAX, (name, cost)
            assert cost.pages <= PAGES_MAX, (name, cost)
        elif not name.startswith(("claim", "sweep")):
            assert cost.index_rows <= INDEX_ROWS_MAX, (name, cost)


@pytest.mark.parametrize("option", ["delay_ms", "life_ms"])
def test_a_sweep_finds_what_is_due_by_its_index(
    calls: Calls, observer: Calls, view: Callable[[], None], option: str
) -> None:
    bench = Workbench(calls)
    consuming = Consuming(calls)
    bench.fill(10_000)
    jobs = {"delay_ms": ["delayed", "due_partitions"], "life_ms": ["expired", "expired_keyed"]}[option]
    for turn in range(3):
        options = {option: HOUR_MS}
        bench.fill(2_000, **options)
        bench.fill(2_000, partition=f"key {turn}", **options)
        view()
        calls.connection.execute(
            "UPDATE telesto.delayed_messages SET due_at = now() WHERE message_id IN"
            " (SELECT message_id FROM telesto.delayed_messages ORDER BY message_id DESC LIMIT 200)"
        )
        for table in ("messages", "keyed_messages"):
            calls.connection.execute(
                f"UPDATE telesto.{table} SET expires_at = now() WHERE message_id IN (SELECT message_id FROM"
                f" telesto.{table} WHERE expires_at > now() ORDER BY message_id DESC LIMIT 200)".encode()
            )
        for job in jobs:
            cost = measure(calls, observer, lambda job=job: consuming.sweep(job))
            assert cost.sequential == [], job
            assert cost.index_rows <= INDEX_ROWS_MAX, (job, turn, cost)
