"""A client that reads: one message at a time, several at a time, or by several reads at the same time."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from telesto.client import AsyncTelestoClient, Message, ReadMode, TelestoClient
from telesto.protocol.errors import TelestoError

from .bodies import read_body
from .client_process import ClientProcess
from .history import DONE, DOUBT, ReadBegan, ReadEnded, Recorder, Released, Taken
from .recorded_call import AnyClient, TakingCall

_WAIT_S = (0.2, 2.0)
_CANCELLED_SHARE = 0.1
_READS_AT_ONCE = 3
#: So many of the reads ask for the oldest message, for those of one sender; are given back.
_BY_TIME_SHARE = 0.15
_ONE_SENDER_SHARE = 0.15
_RELEASED_SHARE = 0.05
_BATCH_MAX = 8


class Call(TakingCall):
    """One read and its history."""

    ended = ReadEnded

    def __init__(
        self,
        recorder: Recorder,
        number: int,
        queue_id: int,
        wait_s: float,
        mode: ReadMode = ReadMode.PRIORITY,
        sender_id: int | None = None,
    ) -> None:
        super().__init__(recorder, number)
        self.queue_id = queue_id
        self.wait_s = wait_s
        self.how: Any = {"timeout": wait_s, "mode": mode, "sender_id": sender_id}

    def began(self, client: AnyClient) -> None:
        """Writes that the call begins."""
        self.record(client, ReadBegan, queue_id=self.queue_id, wait=self.wait_s)

    def returned(self, client: AnyClient, messages: Iterable[Message]) -> None:
        """Writes what the application has now."""
        self._end(client, messages=[taken_of(message) for message in messages])

    def released(self, outcome: str) -> None:
        """Writes that the application has given the messages back."""
        self._recorder.write(Released, number=self._number, outcome=outcome)

    def _end(self, client: AnyClient, **values: Any) -> None:
        super()._end(client, queue_id=self.queue_id, **values)


def taken_of(message: Message) -> Taken:
    """Returns a message as the history has it."""
    key, intact = read_body(message.body)
    return Taken(
        message.message_id,
        key,
        message.priority,
        message.sender_id,
        message.receiver_id or 0,
        message.redelivered,
        intact,
    )


class Reader(ClientProcess):
    """Reads until it is stopped."""

    def run(self) -> None:
        """Works in the style of the task."""
        match self.task.style:
            case "blocking":
                self.run_blocking(self._read_in_turn, auto_confirm=False)
            case "threads":
                self.run_blocking(
                    lambda client: self.in_threads(_READS_AT_ONCE, self._read_in_turn, client),
                    auto_confirm=False,
                )
            case "cancelling":
                self.run_asyncio(self._read_batches)
            case _:
                self.run_asyncio(self._read_at_once, auto_confirm=False)

    def _call(self, client: AnyClient) -> Call:
        chance = self.random
        mode = ReadMode.TIME if chance.random() < _BY_TIME_SHARE else ReadMode.PRIORITY
        sender_id = chance.choice(self.task.sender_ids) if chance.random() < _ONE_SENDER_SHARE else None
        queue_id = chance.choice(self.task.queue_ids)
        call = Call(self.recorder, self.number(), queue_id, chance.uniform(*_WAIT_S), mode, sender_id)
        call.began(client)
        return call

    # --- blocking ----------------------------------------------------------------------------

    def _read_in_turn(self, client: TelestoClient) -> None:
        while not self.stopping and client.session is not None:
            call = self._call(client)
            try:
                message = client.retrieve_message(call.queue_id, **call.how)
            except TelestoError as error:
                call.raised(client, error)
                continue
            messages = [] if message is None else [message]
            call.returned(client, messages)
            if messages:
                call.confirmed(client)
                client.confirm(messages)
                if self.task.state_dir is not None:
                    call.noted()

    # --- asyncio -----------------------------------------------------------------------------

    async def _read_batches(self, client: AsyncTelestoClient) -> None:
        """Reads several at a time; some reads are cancelled. The library confirms."""
        while not self.stopping and client.session is not None:
            call = self._call(client)
            read = asyncio.ensure_future(
                client.queue(call.queue_id).get_many(max_messages=_BATCH_MAX, **call.how)
            )
            if self.random.random() < _CANCELLED_SHARE:
                asyncio.get_running_loop().call_later(self.pause_s(), read.cancel)
            try:
                messages = await read
            except (TelestoError, asyncio.CancelledError) as error:
                call.raised(client, error)
            else:
                self._got(client, call, messages)

    async def _read_at_once(self, client: AsyncTelestoClient) -> None:
        async with asyncio.TaskGroup() as reads:
            for _ in range(_READS_AT_ONCE):
                reads.create_task(self._read_on(client))

    async def _read_on(self, client: AsyncTelestoClient) -> None:
        while not self.stopping and client.session is not None:
            call = self._call(client)
            try:
                messages = await client.queue(call.queue_id).get_many(max_messages=_BATCH_MAX, **call.how)
            except TelestoError as error:
                call.raised(client, error)
                continue
            if messages and self.random.random() < _RELEASED_SHARE:
                await self._give_back(client, call, messages)
                continue
            self._got(client, call, messages)
            if messages:
                await client.confirm(messages)
                if self.task.state_dir is not None:
                    call.noted()

    async def _give_back(self, client: AsyncTelestoClient, call: Call, messages: Sequence[Message]) -> None:
        call.returned(client, messages)
        call.released(DOUBT)  # until it is known
        with contextlib.suppress(TelestoError):
            if await client.release(messages) == len(messages):
                call.released(DONE)

    def _got(self, client: AsyncTelestoClient, call: Call, messages: Sequence[Message]) -> None:
        call.returned(client, messages)
        if messages:
            call.confirmed(client)


if __name__ == "__main__":
    Reader().run()
