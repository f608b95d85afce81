"""Ack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from telesto.db import calls
from telesto.middleware.common.failures import BUSY, failure_of
from telesto.middleware.scheduling.requests import Mark, Request, Results, SmallAnswers, confirmed_of
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import AckResponse, ElementResult, LeaseRef


class AckGroup(SmallAnswers):
    """Gathers acknowledgements."""

    def statement(self, requests: Sequence[Request]) -> calls.Statement:
        """Makes the arrays: per request, per message, per confirmed number."""
        of_request: list[int] = []
        leases: list[LeaseRef] = []
        for index, request in enumerate(requests, 1):
            of_request += [index] * len(request.packet.leases)
            leases += request.packet.leases
        clients = [request.pipeline.client for request in requests]
        return calls.ack_batch(
            client_ids=[client.client_id for client in clients],
            sessions=[client.session for client in clients],
            numbers=[request.packet.number for request in requests],
            item_requests=of_request,
            **lease_columns(leases),
            **confirmed_of(requests),
        )

    def results(self, requests: Sequence[Request], rows: Sequence[Any]) -> Results:
        """Makes the answers from the one row of errors."""
        errors = rows[0]["errors"]
        results = Results()
        at = 0
        for request in requests:
            leases = request.packet.leases
            of_request = [None] * len(leases) if errors is None else errors[at : at + len(leases)]
            at += len(leases)
            first = of_request[0]
            if first == BUSY:
                results.outcomes.append(Mark.BUSY)
            elif first is not None and first != ErrorCode.LEASE_LOST:
                results.fail(request, failure_of(ErrorCode(first), "nothing was acknowledged"))
            else:
                answer = AckResponse(lease_results(leases, of_request))
                results.outcomes.append(answer.encode(request.packet_id))
                results.settled += own_leases(request)
        return results


class LeaseColumns(TypedDict):
    """Leases as arguments of procedures."""

    consumer_ids: list[int]
    lease_ids: list[int]
    message_ids: list[int]


def lease_columns(leases: Sequence[LeaseRef]) -> LeaseColumns:
    """The leases as arguments of procedures."""
    return {
        "consumer_ids": [lease.consumer_id for lease in leases],
        "lease_ids": [lease.lease_id for lease in leases],
        "message_ids": [lease.message_id for lease in leases],
    }


def own_leases(request: Request) -> list[LeaseRef]:
    """Returns the leases of the connection's own consumers."""
    own = request.pipeline.consumers
    return [lease for lease in request.packet.leases if lease.consumer_id in own]


def lease_results(leases: Sequence[LeaseRef], errors: Sequence[int | None]) -> list[ElementResult]:
    """The results of a request, one for each message."""
    return [ElementResult(lease.message_id, error) for lease, error in zip(leases, errors, strict=True)]
