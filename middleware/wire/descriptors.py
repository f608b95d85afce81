"""The limit of open files, and how many connections of clients fit below it."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress

from telesto.middleware.common.logs import logger
from telesto.middleware.metrics.http import CONNECTIONS_MAX

_log = logger("descriptors")

#: How many connections beyond the limit may be open at a time, while they are refused and closed.
REFUSED_MAX = 16
#: Reserved for everything else, such as the search for the primary and modules that are imported late.
_SPARE = 16


def connections_that_fit(wanted: int, others: int) -> int:
    """Raises the limit of open files as far as allowed, and returns how many connections of clients fit.

    It reserves what the process needs otherwise, ``others`` for the database and TLS handshakes: without it a
    middleware with many clients would lose the database or its admin port. Logs a warning when fewer fit than
    are wanted.
    """
    limit = _raised_limit()
    reserved = len(os.listdir("/dev/fd")) + others + CONNECTIONS_MAX + REFUSED_MAX + _SPARE
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
