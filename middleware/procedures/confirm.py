"""Confirm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from telesto.db import calls
from telesto.middleware.common.failures import BUSY, failure_of
from telesto.middleware.scheduling.requests import Mark, Request, Results, SmallAnswers
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import Success

#: In the place of a message id: all messages of the request.
_WHOLE = 0


class ConfirmGroup(SmallAnswers):
    """Gathers confirmations."""

    def statement(self, requests: Sequence[Request]) -> calls.Statement:
        """Makes the arrays: per request, per confirmed number or message."""
        of_request: list[int] = []
        sessions: list[int] = []
        numbers: list[int] = []
        message_ids: list[int] = []
        for index, request in enumerate(requests, 1):
            references = _references(request)
            of_request += [index] * len(references)
            sessions += [session for session, _, _ in references]
            numbers += [number for _, number, _ in references]
            message_ids += [message_id for _, _, message_id in references]
        clients = [request.pipeline.client for request in requests]
        return calls.confirm_batch(
            client_ids=[client.client_id for client in clients],
            sessions=[client.session for client in clients],
            confirm_requests=of_request,
            confirm_sessions=sessions,
            confirm_numbers=numbers,
            confirm_message_ids=message_ids,
        )

    def results(self, requests: Sequence[Request], rows: Sequence[Any]) -> Results:
        """Makes the answers from the one row of errors."""
        errors = rows[0]["errors"] or [None] * len(requests)
        results = Results()
        for request, error in zip(requests, errors, strict=True):
            if error is None:
                results.outcomes.append(Success().encode(request.packet_id))
            elif error == BUSY:
                results.outcomes.append(Mark.BUSY)
            else:
                results.fail(request, failure_of(ErrorCode(error), "nothing was confirmed"))
        return results


def _references(request: Request) -> list[tuple[int, int, int]]:
    packet = request.packet
    session = request.pipeline.client.session
    references = [(session, number, _WHOLE) for number in packet.confirmed]
    references += [(ref.session, ref.number, _WHOLE) for ref in packet.earlier]
    references += [(ref.session, ref.number, ref.message_id) for ref in packet.hand_overs]
    return references
