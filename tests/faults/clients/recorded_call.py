"""A call of a client and its history: what all kinds of calls write down in the same way."""

import asyncio
from typing import Any

from telesto.client import AsyncTelestoClient, TelestoClient
from telesto.protocol.errors import TelestoError

from .client_process import outcome_of
from .history import DOUBT, Confirmed, Event, Noted, Recorder

AnyClient = TelestoClient | AsyncTelestoClient


class RecordedCall:
    """Writes events under the number of the call, and in the client's session."""

    def __init__(self, recorder: Recorder, number: int) -> None:
        self._recorder = recorder
        self._number = number

    def record(self, client: AnyClient, event: type[Event], **values: Any) -> None:
        """Writes an event of the call, now."""
        self._recorder.write(event, number=self._number, session=client.session or 0, **values)


class TakingCall(RecordedCall):
    """A call that gives the application messages, which it confirms later."""

    #: The event that tells how such a call ended.
    ended: type[Event]

    def raised(self, client: AnyClient, error: BaseException) -> None:
        """Writes that the call failed."""
        cancelled = isinstance(error, asyncio.CancelledError)
        self._end(client, error="cancelled" if cancelled else type(error).__name__)

    def confirmed(self, client: AnyClient) -> None:
        """Writes that the application is about to confirm."""
        self.record(client, Confirmed)

    def noted(self) -> None:
        """Writes that the client's state has it that they are confirmed."""
        self._recorder.write(Noted, number=self._number)

    def _end(self, client: AnyClient, **values: Any) -> None:
        self.record(client, self.ended, **values)


def outcome_after(error: BaseException) -> str:
    """Returns what is known of a request whose call ended in an error: DOUBT unless the service said it."""
    return outcome_of(error) if isinstance(error, TelestoError) else DOUBT
