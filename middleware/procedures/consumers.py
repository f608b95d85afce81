"""Joining and leaving queues, giving messages back and touching their leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from telesto.middleware.common.failures import FailedError, LostError, check_error, failure_of
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.behaviour import BehaviourLimits
from telesto.middleware.consumers.lease_renewal import LeaseRenewal
from telesto.middleware.consumers.leaving_consumers import LeavingConsumers
from telesto.middleware.consumers.registry import Consumers
from telesto.middleware.procedures.leases import lease_results, own_leases
from telesto.middleware.scheduling.requests import Pipeline, Request
from telesto.middleware.scheduling.single_request import Call, OneCall, Reply, Row, arrivals_of, numbered
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import JoinQueueResponse, LeaseRef, NackResponse, Success, TouchResponse

NACK = "SELECT * FROM telesto.nack_numbered($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
JOIN = "SELECT * FROM telesto.join_queue($1, $2, $3, $4, $5)"


class JoinQueueHandler:
    """JoinQueue."""

    def __init__(
        self,
        consumers: Consumers,
        leaving: LeavingConsumers,
        leases: LeaseRenewal,
        peers: Peers,
        may_join: Callable[[Pipeline, int], bool],
    ) -> None:
        self._consumers = consumers
        self._leaving = leaving
        self._leases = leases
        self._peers = peers
        self._may_join = may_join

    async def __call__(self, call: Call, request: Request, settings: ServerSettings) -> Reply:
        """Makes a consumer; if nobody knows whether it was made, the connection ends, and so does it."""
        packet, client = request.packet, request.pipeline.client
        if not self._may_join(request.pipeline, len(self._consumers)):
            raise FailedError(
                failure_of(ErrorCode.OVERLOADED, "the middleware has as many consumers as it may")
            )
        try:
            # Joining ends the consumers of an earlier connection, without knowing what they had begun.
            await self._leaving.send()
            rows = await call(
                JOIN,
                client.client_id,
                client.session,
                self._peers.middleware_id,
                packet.queue_id,
                packet.credit_messages == 0,
            )
        except LostError:
            request.pipeline.finish()
            raise
        row = rows[0]
        check_error(row["error"], f"queue {packet.queue_id} cannot be joined", packet.queue_id)
        self._consumers.join(
            row["consumer_id"],
            packet.queue_id,
            request.pipeline,
            packet.credit_messages,
            packet.credit_bytes,
            _limits(row),
            row["lease_ms"] / 1000,
        )
        self._leases.work.poke()
        return Reply(
            JoinQueueResponse(row["consumer_id"], row["lease_ms"]),
            arrivals=arrivals_of(row["queue_ids"], row["receiver_ids"]),
        )


def _limits(row: Row) -> BehaviourLimits:
    return BehaviourLimits(
        row["late_after_ms"] / 1000, row["late_limit"], row["late_window_ms"] / 1000, row["fail_limit"]
    )


class LeaveQueueHandler:
    """LeaveQueue."""

    def __init__(self, consumers: Consumers, leaving: LeavingConsumers) -> None:
        self._consumers = consumers
        self._leaving = leaving

    async def __call__(self, call: Call, request: Request, settings: ServerSettings) -> Reply:
        """Ends a consumer. Should the database not be had now, it is told as soon as it can be."""
        consumer = self._consumers.find(request.pipeline, request.packet.consumer_id)
        if consumer is not None:
            self._consumers.remove(consumer)
            self._leaving.add(consumer, False, asked=True)
            await self._leaving.send()
        return Reply(Success())


def _columns(leases: list[LeaseRef]) -> tuple[list[int], list[int], list[int]]:
    return (
        [lease.consumer_id for lease in leases],
        [lease.lease_id for lease in leases],
        [lease.message_id for lease in leases],
    )


class NackHandler:
    """Nack."""

    def __init__(self, consumers: Consumers) -> None:
        self._consumers = consumers

    async def __call__(self, call: Call, request: Request, settings: ServerSettings) -> Reply:
        """Gives messages back; those that were not begun as if they had never been given."""
        packet = request.packet
        begun_ids = self._consumers.begun_ids(own_leases(request))
        arguments = *_columns(packet.leases), packet.failed, packet.delay_ms, begun_ids
        return _nack_reply(request, await call(NACK, *numbered(request), *arguments))


def _nack_reply(request: Request, rows: list[Row]) -> Reply:
    row, leases = rows[0], request.packet.leases
    check_error(row["error"], "nothing was given back")
    failed = [lease for lease, error in zip(leases, row["errors"], strict=True) if error is None]
    return Reply(
        NackResponse(lease_results(leases, row["errors"])),
        arrivals=arrivals_of(row["queue_ids"], row["receiver_ids"]),
        settled=own_leases(request),
        failed=failed if request.packet.failed else [],
        lost=[
            LeaseRef(*ref)
            for ref in zip(
                row["follower_consumers"] or (),
                row["follower_leases"] or (),
                row["follower_ids"] or (),
                strict=True,
            )
        ],
    )


def _touch_arguments(request: Request, _settings: ServerSettings) -> tuple[Any, ...]:
    client = request.pipeline.client
    return client.client_id, client.session, *_columns(request.packet.leases)


def _touch_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    row, leases = rows[0], request.packet.leases
    check_error(row["error"], "no lease was touched")
    own = request.pipeline.consumers
    told = [pair for pair in zip(leases, row["errors"], strict=True) if pair[0].consumer_id in own]
    lost = [lease for lease, error in told if error is not None]
    kept = [lease for lease, error in told if error is None]
    return Reply(TouchResponse(lease_results(leases, row["errors"])), settled=lost, touched=kept)


TOUCH = OneCall("SELECT * FROM telesto.touch_leases($1, $2, $3, $4, $5)", _touch_arguments, _touch_reply)
