"""A client that gets from topics: those of one, of all, several at a time; some leave and come back."""

import asyncio
from collections.abc import Iterable
from typing import Any

from telesto.client import AsyncTelestoClient, Subscription, TelestoClient, TopicMessage
from telesto.protocol.errors import TelestoError

from .bodies import read_body
from .client_process import ClientProcess
from .history import (
    DONE,
    GetBegan,
    GetEnded,
    Got,
    Recorder,
    Released,
    SubscribeBegan,
    Subscribed,
    UnsubscribeBegan,
)
from .recorded_call import AnyClient, TakingCall

_WAIT_S = (0.2, 2.0)
_CANCELLED_SHARE = 0.1
_RELEASED_SHARE = 0.05
_LEAVING_SHARE = 0.02
_ONE_TOPIC_SHARE = 0.3
_BATCH_MAX = 50


class Call(TakingCall):
    """One get and its history."""

    ended = GetEnded

    def __init__(self, recorder: Recorder, number: int, topic: str | None, wait_s: float) -> None:
        super().__init__(recorder, number)
        self.topic = topic
        self.wait_s = wait_s

    def began(self, client: AnyClient) -> None:
        """Writes that the call begins."""
        self.record(client, GetBegan, topic=self.topic or "", wait=self.wait_s)

    def returned(self, client: AnyClient, messages: Iterable[TopicMessage]) -> None:
        """Writes what the application has now."""
        self._end(client, messages=[got_of(message) for message in messages])

    def released(self) -> None:
        """Writes that the application wants the messages again."""
        self._recorder.write(Released, number=self._number, outcome=DONE)

    def _end(self, client: AnyClient, **values: Any) -> None:
        super()._end(client, topic=self.topic or "", **values)


def got_of(message: TopicMessage) -> Got:
    """Returns a message as the history has it."""
    key, intact = read_body(message.body)
    return Got(message.subscription_id, message.topic, message.number, key, intact)


class Subscriber(ClientProcess):
    """Gets until it is stopped."""

    def __init__(self) -> None:
        super().__init__()
        #: Topics without a subscription; None while nobody knows.
        self._missing: set[str] | None = None

    def run(self) -> None:
        """Works in the style of the task."""
        match self.task.style:
            case "blocking":
                self.run_blocking(self._get_in_turn, auto_confirm=False)
            case "leaving":
                self.run_blocking(self._get_and_leave, auto_confirm=False)
            case "iterating":
                self.run_blocking(self._iterate)
            case _:
                self.run_asyncio(self._get_batches)

    def _call(self, client: AnyClient, topic: str | None = None) -> Call:
        call = Call(self.recorder, self.number(), topic, self.random.uniform(*_WAIT_S))
        call.began(client)
        return call

    # --- subscriptions -----------------------------------------------------------------------

    def _subscribe(self, client: TelestoClient) -> None:
        """Subscribes to the topics that are missing; what nobody knows is looked up the next time."""
        try:
            if self._missing is None:
                self._missing = self._known(client.subscriptions())
            for topic in sorted(self._missing):
                self._about_to_subscribe(topic)
                self._subscribed(topic, client.topic(topic).subscribe(existing="error"))
        except TelestoError:
            self._missing = None

    async def _subscribe_async(self, client: AsyncTelestoClient) -> None:
        try:
            if self._missing is None:
                self._missing = self._known(await client.subscriptions())
            for topic in sorted(self._missing):
                self._about_to_subscribe(topic)
                self._subscribed(topic, await client.topic(topic).subscribe(existing="error"))
        except TelestoError:
            self._missing = None

    def _unsubscribe(self, client: TelestoClient, topic: str) -> None:
        self.recorder.write(UnsubscribeBegan, topic=topic)
        try:
            client.topic(topic).unsubscribe()
        except TelestoError:
            self._missing = None
        else:
            if self._missing is not None:
                self._missing.add(topic)

    def _known(self, subscriptions: Iterable[Subscription]) -> set[str]:
        missing = set(self.task.topics)
        for each in subscriptions:
            self.recorder.write(Subscribed, topic=each.topic, subscription_id=each.subscription_id)
            missing.discard(each.topic)
        return missing

    def _about_to_subscribe(self, topic: str) -> None:
        self.recorder.write(SubscribeBegan, number=self.number(), topic=topic)

    def _subscribed(self, topic: str, subscription_id: int) -> None:
        self.recorder.write(Subscribed, topic=topic, subscription_id=subscription_id)
        assert self._missing is not None
        self._missing.discard(topic)

    # --- blocking ----------------------------------------------------------------------------

    def _get_in_turn(self, client: TelestoClient) -> None:
        while not self.stopping and client.session is not None:
            self._subscribe(client)
            one = self.random.random() < _ONE_TOPIC_SHARE
            self._get(client, self.random.choice(self.task.topics) if one else None)

    def _get_and_leave(self, client: TelestoClient) -> None:
        while not self.stopping and client.session is not None:
            self._subscribe(client)
            if self.random.random() < _LEAVING_SHARE:
                self._unsubscribe(client, self.random.choice(self.task.topics))
            else:
                self._get(client, None)

    def _get(self, client: TelestoClient, topic: str | None) -> None:
        call = self._call(client, topic)
        try:
            source = client.subscribed_topics if topic is None else client.topic(topic)
            messages = source.get_many(_BATCH_MAX, timeout=call.wait_s)
        except TelestoError as error:
            call.raised(client, error)
            self._missing = None
            return
        call.returned(client, messages)
        if messages and self.random.random() < _RELEASED_SHARE:
            call.released()
            client.release(messages)
        elif messages:
            call.confirmed(client)
            client.confirm(messages)
            if self.task.state_dir is not None:
                call.noted()

    def _iterate(self, client: TelestoClient) -> None:
        """Takes message by message, of which the library fetches several; the library confirms."""
        while not self.stopping and client.session is not None:
            self._subscribe(client)
            call = self._call(client)
            try:
                for message in client.subscribed_topics.messages(timeout=call.wait_s):
                    call.returned(client, [message])
                    if self.stopping:
                        return
                    call = self._call(client)
            except TelestoError as error:
                call.raised(client, error)
                self._missing = None
            else:
                call.returned(client, [])

    # --- asyncio -----------------------------------------------------------------------------

    async def _get_batches(self, client: AsyncTelestoClient) -> None:
        """Gets several at a time; some gets are cancelled. The library confirms."""
        while not self.stopping and client.session is not None:
            await self._subscribe_async(client)
            call = self._call(client)
            get = asyncio.ensure_future(
                client.subscribed_topics.get_many(max_messages=_BATCH_MAX, timeout=call.wait_s)
            )
            if self.random.random() < _CANCELLED_SHARE:
                asyncio.get_running_loop().call_later(self.pause_s(), get.cancel)
            try:
                messages = await get
            except (TelestoError, asyncio.CancelledError) as error:
                call.raised(client, error)
                if not isinstance(error, asyncio.CancelledError):
                    self._missing = None
            else:
                call.returned(client, messages)


if __name__ == "__main__":
    Subscriber().run()
