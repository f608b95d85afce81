# Generated from client/aio/lists.py by "python -m tools.codegen"; do not edit.
"""How the blocking client makes calls for lists."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from telesto.client import arguments
from telesto.client.calls.queue_calls import Call
from telesto.client.io.driver import Driver
from telesto.client.io.shared import OutcomeT
from telesto.protocol.errors import TelestoError

CallT = TypeVar("CallT", bound=Call[Any])
RowT = TypeVar("RowT")


def in_batches(
    driver: Driver, batches: Iterable[CallT], failed: Callable[[CallT, TelestoError], list[OutcomeT]]
) -> list[OutcomeT]:
    """Makes the calls, ``put_batches_in_flight`` at a time; returns their results, in order.

    Args:
        driver: makes the calls.
        batches: the calls, taken as they are sent.
        failed: gives the results of a call that failed as a whole.

    Raises the error of the first call when it cannot even be begun.
    """
    driver.start_connecting()
    results: list[OutcomeT] = []
    under_way: deque[CallT] = deque()

    def finish_first() -> list[OutcomeT]:
        call = under_way.popleft()
        try:
            outcomes: list[OutcomeT] = driver.wait_for(call)
        except TelestoError as error:
            return failed(call, error)
        return outcomes

    try:
        for call in batches:
            try:
                under_way.append(driver.start(call))
            except TelestoError as error:
                if not under_way and not results:
                    raise
                while under_way:
                    results += finish_first()
                results += failed(call, error)
            if len(under_way) >= driver.options.put_batches_in_flight:
                results += finish_first()
        while under_way:
            results += finish_first()
    finally:
        driver.abandon(under_way)
    return results


def all_pages(
    driver: Driver,
    page: Callable[[int, int], Call[tuple[list[RowT], bool]]],
    id_of: Callable[[RowT], int],
    limit: int | None = None,
) -> list[RowT]:
    """Collects the pages of a list that is ordered by an id.

    Args:
        driver: makes the calls.
        page: makes the call for a page, from the id behind which it begins and how many rows it may have.
        id_of: tells the id of a row.
        limit: how many rows are collected at most; None for all.

    Raises TypeError and InvalidParameterError for a wrong ``limit``.
    """
    if limit is not None:
        arguments.check_count("limit", limit)
    found: list[RowT] = []
    after, more = 0, True
    while more and (limit is None or len(found) < limit):
        size = driver.options.page_size
        rows, more = driver.run(page(after, size if limit is None else min(size, limit - len(found))))
        found += rows
        after = id_of(found[-1]) if found else 0
    return found
