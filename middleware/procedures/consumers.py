"""Joining and leaving queues, giving messages back and touching their leases."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from telesto.db import calls
from telesto.middleware.common.failures import FailedError, LostError, check_error, failure_of
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.behaviour import BehaviourLimits
from telesto.middleware.consumers.lease_renewal import LeaseRenewal
from telesto.middleware.consumers.leaving_consumers import LeavingConsumers
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.procedures.leases import lease_columns, lease_results, own_leases
from telesto.middleware.scheduling.requests import Pipeline, Request
from telesto.middleware.scheduling.single_request import Call, OneCall, Reply, Row, arrivals_of, numbered
from telesto.middleware.security.users import User
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import JoinQueueResponse, LeaseRef, NackResponse, Success, TouchResponse


class JoinQueueHandler:
    """JoinQueue."""

    def __init__(
        self,
        consumers: ConsumerRegistry,
        leaving: LeavingConsumers,
        leases: LeaseRenewal,
        peers: Peers,
        may_join: Callable[[Pipeline, int], bool],
        joining: Callable[[User | None], AbstractContextManager[None]],
    ) -> None:
        self._consumers = consumers
        self._leaving = leaving
        self._leases = leases
        self._peers = peers
        self._may_join = may_join
        self._joining = joining

    async def __call__(self, call: Call, request: Request, settings: ServerSettings) -> Reply:
        """Makes a consumer. If the outcome is unknown, closes the connection, which ends the consumer."""
        if not self._may_join(request.pipeline, len(self._consumers)):
            raise FailedError(
                failure_of(ErrorCode.OVERLOADED, "the middleware has as many consumers as it may")
            )
        with self._joining(request.pipeline.user):
            return await self._join(call, request)

    async def _join(self, call: Call, request: Request) -> Reply:
        packet, client = request.packet, request.pipeline.client
        try:
            # Joining ends the consumers of an earlier connection, without knowing what they had begun.
            await self._leaving.send_for(packet.queue_id, call)
            rows = await call(
                *calls.join_queue(
                    client_id=client.client_id,
                    session=client.session,
                    middleware_id=self._peers.middleware_id,
                    queue_id=packet.queue_id,
                    paused=packet.credit_messages == 0,
                )
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

    def __init__(self, consumers: ConsumerRegistry, leaving: LeavingConsumers) -> None:
        self._consumers = consumers
        self._leaving = leaving

    async def __call__(self, call: Call, request: Request, settings: ServerSettings) -> Reply:
        """Ends a consumer. If the database is not available, or the queue is locked, it is told later."""
        consumer = self._consumers.find(request.pipeline, request.packet.consumer_id)
        if consumer is not None:
            self._consumers.remove(consumer)
            self._leaving.add(consumer, False, asked=True)
            await self._leaving.send_for(consumer.queue_id, call)
        return Reply(Success())


class NackHandler:
    """Nack."""

    def __init__(self, consumers: ConsumerRegistry) -> None:
        self._consumers = consumers

    async def __call__(self, call: Call, request: Request, settings: ServerSettings) -> Reply:
        """Gives messages back; those that were not begun as if they had never been given."""
        packet = request.packet
        nack = calls.nack_numbered(
            **numbered(request),
            **lease_columns(packet.leases),
            failed=packet.failed,
            delay_ms=packet.delay_ms,
            begun_ids=self._consumers.begun_ids(request.pipeline, packet.leases),
            reason=packet.reason,
            rejected=bool(packet.rejected),
        )
        return _nack_reply(request, await call(*nack))


def _nack_reply(request: Request, rows: list[Row]) -> Reply:
    row, leases = rows[0], request.packet.leases
    check_error(row["error"], "nothing was given back")
    failed = [lease for lease, error in zip(leases, row["errors"], strict=True) if error is None]
    return Reply(
        NackResponse(lease_results(leases, row["errors"])),
        arrivals=arrivals_of(row["queue_ids"], row["receiver_ids"]),
        settled=own_leases(request),
        # What cannot be processed by anybody says nothing of this consumer.
        failed=failed if request.packet.failed and not request.packet.rejected else [],
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


def _touch(request: Request, _settings: ServerSettings) -> calls.Statement:
    client = request.pipeline.client
    return calls.touch_leases(
        client_id=client.client_id, session=client.session, **lease_columns(request.packet.leases)
    )


def _touch_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    row, leases = rows[0], request.packet.leases
    check_error(row["error"], "no lease was touched")
    own = request.pipeline.consumers
    told = [pair for pair in zip(leases, row["errors"], strict=True) if pair[0].consumer_id in own]
    lost = [lease for lease, error in told if error is not None]
    kept = [lease for lease, error in told if error is None]
    return Reply(TouchResponse(lease_results(leases, row["errors"])), settled=lost, touched=kept)


TOUCH = OneCall(_touch, _touch_reply)
