"""Calls for consumers of several queues, of which an application may have locked one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import TypeVar

from telesto.middleware.common.failures import LOCKED_SQLSTATE, RefusedError

T = TypeVar("T")


async def queue_by_queue(
    items: Sequence[T], group_of: Callable[[T], int], call: Callable[[Sequence[T]], Awaitable[None]]
) -> list[T]:
    """Makes one call for all items, or one for each group of them if that meets a lock.

    Returns the items whose group is locked, for which nothing was done. Raises what ``call`` raises.
    """
    try:
        await call(items)
    except RefusedError as error:
        if error.sqlstate != LOCKED_SQLSTATE:
            raise
    else:
        return []
    locked: list[T] = []
    for _, group in groupby(sorted(items, key=group_of), group_of):
        some = list(group)
        try:
            await call(some)
        except RefusedError as error:
            if error.sqlstate != LOCKED_SQLSTATE:
                raise
            locked += some
    return locked
