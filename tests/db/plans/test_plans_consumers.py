"""The plans of the procedures of consumers, as test_plans does for puts and takes."""

from collections.abc import Callable
from typing import Any

import pytest

from plan_bench import Workbench, backlog_below, dead, empty, full, members
from plan_costs import BATCH, DEAD, Cost, assert_new_plans_hold, assert_old_plans_hold, measure
from procedure_calls import Calls

pytestmark = pytest.mark.usefixtures("no_vacuum")
#: See conftest.
QUIET_TABLES = ("messages", "leases", "operations", "put_states", "take_states")
SEEN_TABLES = ("messages", "leases")


def dead_leases(bench: Workbench) -> None:
    """What consumers have acknowledged, the same ones that are measured."""
    consuming, consumers = members(bench)
    bench.fill(DEAD)
    for _ in range(DEAD // 2000):
        leases = consuming.claim(*consumers, count=2000 // len(consumers)).leases
        for client in bench.clients:
            consuming.ack(client, *[lease for lease in leases if lease.consumer.client is client], number=0)


STATES = [empty, full, backlog_below, dead, dead_leases]


def measure_all(bench: Workbench, observer: Calls) -> dict[str, Cost]:
    consuming, consumers = members(bench)
    calls, costs = bench.calls, {}

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
