"""What calls of the installed procedures touch: rows of indexes and pages, per element, and whole tables."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from procedure_calls import Calls

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

CallsT = TypeVar("CallsT", bound=Calls)


@dataclass(frozen=True)
class Cost:
    """What one call touched, divided by its elements."""

    index_rows: float
    pages: float
    sequential: list[str]


class Bench(Protocol[CallsT]):
    """What is called, in some state of the tables."""

    calls: CallsT


BenchT = TypeVar("BenchT", bound=Bench[Any])
#: Makes the calls, and says what each of them cost.
MeasureAll = Callable[[BenchT, Calls], dict[str, Cost]]


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


def assert_old_plans_hold(
    bench: BenchT,
    measure_all: MeasureAll[BenchT],
    observer: Calls,
    state: Callable[[BenchT], None],
    view: Callable[[], None],
) -> None:
    """Plans that were made while the tables were empty are good in any state."""
    measure_all(bench, observer)
    state(bench)
    view()
    assert_bounded(measure_all(bench, observer))


def assert_new_plans_hold(
    bench: BenchT,
    measure_all: MeasureAll[BenchT],
    observer: Calls,
    state: Callable[[BenchT], None],
    view: Callable[[], None],
    connect: Callable[[], AbstractContextManager[Any]],
) -> None:
    """Plans that a new connection makes are good in any state."""
    state(bench)
    view()
    _flush(bench.calls)  # else what the state cost is counted when that connection has been idle for a while
    with connect() as fresh:
        bench.calls = fresh
        assert_bounded(measure_all(bench, observer))
