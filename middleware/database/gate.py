"""Refuses calls before they are sent, while the database cannot do what they ask for."""

from __future__ import annotations

from telesto.middleware.common.failures import Failure, UnavailableError
from telesto.middleware.common.logs import logger

_log = logger("database")


class Gate:
    """Stands before all calls that are made for clients.

    Attributes:
        shut: how all calls are refused, None when they are not.
        shut_for_writes: how those are refused that write.
    """

    def __init__(self) -> None:
        self.shut: Failure | None = None
        self.shut_for_writes: Failure | None = None

    @property
    def is_open(self) -> bool:
        """Nothing is refused."""
        return self.shut is None and self.shut_for_writes is None

    def open(self, why: str) -> None:
        """Refuses nothing any more."""
        if not self.is_open:
            _log.info("available_again", why=why)
            self.shut = self.shut_for_writes = None

    def check(self, *, writes: bool) -> None:
        """Raises UnavailableError, with the failure, for a call that is refused."""
        failure = self.shut or (self.shut_for_writes if writes else None)
        if failure is not None:
            raise UnavailableError(failure.details, failure)
