"""Tells the other middlewares for which queues reads wait here, and finds messages without a wake-up."""

from __future__ import annotations

from telesto.db import calls
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.requests import topic_channel
from telesto.middleware.scheduling.single_request import Call
from telesto.middleware.waiting.room import WaitingRoom


class Interests:
    """Registers interest in queues and topics, and withdraws it when no read has waited for a while.

    One background task does both, so that they reach the database in order.
    """

    def __init__(self, call: Call, room: WaitingRoom, peers: Peers, settings: ServerSettings) -> None:
        self._call = call
        self._room = room
        self._peers = peers
        self._idle_s = settings.interest_idle_s
        self._queues_max = settings.wake_sweep_queues
        period_s = settings.interest_idle_s / 2
        self.work = Periodic("interests", self._keep, period_s=period_s, poked=room.interest_wanted)

    async def _keep(self) -> None:
        await self._withdraw()
        while self._room.unregistered:
            channels = list(self._room.unregistered)[: self._queues_max]
            await self._call(
                *calls.register_interest(middleware_id=self._peers.middleware_id, queue_ids=channels)
            )
            for channel in channels:
                self._room.interest_known(channel)

    async def _withdraw(self) -> None:
        idle = self._room.pop_idle(self._idle_s, self._queues_max)
        if idle:
            await self._call(
                *calls.withdraw_interest(middleware_id=self._peers.middleware_id, queue_ids=idle)
            )


class WakeSweep:
    """Asks regularly whether queues and topics for which reads wait have messages, or were deleted.

    Wake-ups from other middlewares may get lost. This finds what they did not announce.
    """

    def __init__(self, call: Call, room: WaitingRoom, interests: Interests, settings: ServerSettings) -> None:
        self._call = call
        self._room = room
        self._interests = interests
        self._queues_max = settings.wake_sweep_queues
        self._reads_max = settings.wake_sweep_reads
        self.work = Periodic("wake_sweep", self._look, period_s=settings.wake_sweep_s)

    async def _look(self) -> None:
        channels = self._room.channels
        await self._look_at_queues([channel for channel in channels if channel > 0])
        await self._look_at_topics([-channel for channel in channels if channel < 0])
        self._interests.work.poke()

    async def _look_at_queues(self, queue_ids: list[int]) -> None:
        for at in range(0, len(queue_ids), self._queues_max):
            rows = await self._call(*calls.ready_queues(queue_ids=queue_ids[at : at + self._queues_max]))
            for queue_id, depth, exists in rows:
                if not exists:
                    self._room.queue_deleted(queue_id)
                elif depth > 0:
                    self._room.look_again(queue_id, min(depth, self._reads_max))

    async def _look_at_topics(self, topic_ids: list[int]) -> None:
        for at in range(0, len(topic_ids), self._queues_max):
            rows = await self._call(*calls.topic_numbers(topic_ids=topic_ids[at : at + self._queues_max]))
            for topic_id, last_number in rows:
                self._room.topic_stands_at(topic_channel(topic_id), last_number)
