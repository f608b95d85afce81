"""Open files of this process: how many it may have, and how many of them are left for clients."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress

from telesto.middleware.common.logs import logger
from telesto.middleware.metrics.http import CONNECTIONS_MAX

_log = logger("descriptors")

#: Connections that are told that there are too many, and are closed, at a time.
REFUSED_MAX = 16
#: For all else: looking for the primary, modules that are loaded late.
_SPARE = 16


def connections_that_fit(wanted: int, database_connections: int) -> int:
    """How many connections of clients there may be, after the limit was raised as far as this process may.

    What else the process needs is kept free: without it a middleware would lose the database, or its admin
    port, just when there are many clients. Says so when less fit than are wanted.
    """
    limit = _raised_limit()
    reserved = len(os.listdir("/dev/fd")) + database_connections + CONNECTIONS_MAX + REFUSED_MAX + _SPARE
    fitting = max(1, limit - reserved)
    if fitting >= wanted:
        return wanted
    _log.warning(
        "few_descriptors",
        limit=limit,
        reserved=reserved,
        max_connections=fitting,
        instead_of=wanted,
        advice=f"raise the limit of open files (ulimit -n) to {wanted + reserved}",
    )
    return fitting


def _raised_limit() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
