"""Random interleavings of calls, cut connections, partial answers, takeovers, errors and crashes.

However they fall: a put is done at most once, and exactly once when its call says so; a message is handed to
the application once, or again marked redelivered; and in the end every message is either in its queue or was
handed over.
"""

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fake_service import FakeService, Fault
from harness import Clock, Wire
from telesto.client.calls.queue_calls import (
    DONE,
    Call,
    GetQueuesCall,
    PutCall,
    PutManyCall,
    ReadCall,
    TakingCall,
)
from telesto.client.errors import ClientClosedError, DeadlineExceededError, TriesExhaustedError
from telesto.client.models import Message
from telesto.client.options import ClientOptions
from telesto.protocol import packets
from telesto.protocol.errors import ConnectionLostError, ErrorCode, SessionFencedError, TelestoError
from telesto.protocol.packets import NewMessage, QueuedMessage, ReadMode

FAULTS = [
    Fault(method, code, after_execution=after)
    for method in (packets.PutMessage, packets.PutMessages, packets.ReadMessage)
    for code, after in (
        (ErrorCode.OVERLOADED, False),
        (ErrorCode.DATABASE_UNAVAILABLE, False),
        (ErrorCode.IO_ERROR, False),
        (ErrorCode.IO_ERROR, True),
        (ErrorCode.INTERNAL_ERROR, True),
        (ErrorCode.TOO_MANY_UNCONFIRMED, False),
    )
] + [
    Fault(packets.Confirm, ErrorCode.DATABASE_UNAVAILABLE),
    Fault(packets.Confirm, ErrorCode.IO_ERROR, after_execution=True),
    Fault(packets.Release, ErrorCode.OVERLOADED),
    Fault(packets.IdentifyClient, ErrorCode.TAKEOVER_BUSY),
    Fault(packets.IdentifyClient, ErrorCode.IO_ERROR, after_execution=True),
]

sizes = st.one_of(st.none(), st.integers(1, 200))


class ClientMachine(RuleBasedStateMachine):
    """One client, one queue or two, and whatever can go wrong between them."""

    auto_confirm = True

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.service = FakeService(self.clock)
        self.queues: list[int] = []
        self.calls: list[Call[Any]] = []
        self.put_bodies: dict[Call[Any], list[bytes]] = {}
        self.bodies = 0
        self.foreign: set[int] = set()
        self.handed: Counter[int] = Counter()
        self.may_return: set[int] = set()
        self.holding: list[Message] = []
        self.client_id = 0
        self.faulted = False
        self.fenced = False

    def new_wire(self) -> Wire:
        options = ClientOptions(max_recovered=2, auto_confirm=self.auto_confirm, max_tries=4)
        return Wire(self.clock, self.service, options)

    @initialize(window=st.sampled_from([2, 5, 1024]), rows=st.sampled_from([1, 3, 1000]))
    def begin(self, window: int, rows: int) -> None:
        self.service.max_unconfirmed = window
        self.service.page_rows = rows
        self.queues = [self.service.add_queue("one"), self.service.add_queue("two")]
        self.wire = self.new_wire()
        self.wire.connect()
        self.client_id = self.wire.session.client_id or 0

    # calls

    def body(self) -> bytes:
        self.bodies += 1
        return str(self.bodies).encode()

    @rule(queue=st.integers(0, 1), priority=st.integers(1, 3))
    def put(self, queue: int, priority: int) -> None:
        body = self.body()
        call = PutCall(self.queues[queue], body, priority, None, None)
        self.put_bodies[call] = [body]
        self.calls.append(self.wire.start(call))

    @rule(queue=st.integers(0, 1))
    def put_many(self, queue: int) -> None:
        bodies = [self.body() for _ in range(3)]
        messages = [QueuedMessage(self.queues[queue], NewMessage(5, 0, body, None)) for body in bodies]
        call = PutManyCall(self.queues[queue], messages)
        self.put_bodies[call] = bodies
        self.calls.append(self.wire.start(call))

    @rule(
        queue=st.integers(0, 1),
        timeout=st.sampled_from([0, 1, None]),
        most=st.integers(1, 3),
        mode=st.sampled_from(ReadMode),
    )
    def read(self, queue: int, timeout: float | None, most: int, mode: ReadMode) -> None:
        self.calls.append(self.wire.start(ReadCall(self.queues[queue], None, mode, timeout, most)))

    @rule(queue=st.integers(0, 1))
    def put_by_another_client(self, queue: int) -> None:
        body = self.body()
        self.foreign.add(int(body))
        self.service.put(999, self.queues[queue], NewMessage(5, 0, body, None))
        self.service.wake()

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.calls))
        self.calls.remove(call)
        self.wire.session.abandon(call)

    @precondition(lambda self: any(call.phase == DONE for call in self.calls))
    @rule()
    def take_what_is_done(self) -> None:
        for call in [call for call in self.calls if call.phase == DONE]:
            self.take(call)

    def take(self, call: Call[Any]) -> None:
        self.calls.remove(call)
        try:
            result = self.wire.session.take(call)
        except TelestoError as error:
            self.check_error(call, error)
            return
        if isinstance(call, TakingCall):
            self.check_messages(result)
        else:
            stored = Counter(body for _, body in self.service.put_bodies)
            assert all(stored[body] == 1 for body in self.put_bodies[call])

    def check_error(self, call: Call[Any], error: TelestoError) -> None:
        definite = error.code is ErrorCode.TOO_MANY_UNCONFIRMED or isinstance(error, TriesExhaustedError)
        fenced = self.fenced and isinstance(error, (SessionFencedError, ConnectionLostError))
        open_end = fenced or isinstance(error, (DeadlineExceededError, ClientClosedError))
        assert definite or open_end, repr(error)
        if definite and call in self.put_bodies:
            stored = {body for _, body in self.service.put_bodies}
            assert not stored.intersection(self.put_bodies[call])

    def check_messages(self, messages: list[Message]) -> None:
        for message in messages:
            if self.handed[message.message_id]:
                assert message.redelivered, "handed over twice, as if for the first time"
                assert message.message_id in self.may_return, "handed over twice without a reason"
            self.handed[message.message_id] += 1
            if not self.auto_confirm:
                self.holding.append(message)

    # the wire

    @rule(size=sizes)
    def deliver_to_service(self, size: int | None) -> None:
        self.wire.collect()
        self.wire.deliver_to_service(size)

    @rule(size=sizes)
    def deliver_to_client(self, size: int | None) -> None:
        self.wire.collect()
        self.wire.deliver_to_client(size)

    @rule()
    def lose_the_requests(self) -> None:
        self.wire.collect()
        self.wire.cut()

    @rule()
    def lose_the_answers(self) -> None:
        self.wire.reach_service()
        self.wire.collect()
        self.wire.cut()

    @rule()
    def settle_and_take(self) -> None:
        self.wire.settle()
        self.take_what_is_done()

    @rule()
    def settle(self) -> None:
        self.wire.settle()

    @rule()
    def cut(self) -> None:
        self.wire.cut()

    @rule()
    def reconnect(self) -> None:
        self.wire.open_link()

    @rule(seconds=st.sampled_from([0.01, 0.06, 1.1, 11, 35]))
    def advance(self, seconds: float) -> None:
        self.wire.advance(seconds)

    @rule(fault=st.sampled_from(FAULTS))
    def fail_once(self, fault: Fault) -> None:
        self.service.faults.append(fault)
        self.faulted = True

    @precondition(lambda self: self.wire.remote is not None and not self.wire.remote.draining)
    @rule()
    def drain(self) -> None:
        assert self.wire.remote is not None
        self.wire.remote.go_away(["c:3"])

    @rule()
    def crash(self) -> None:
        """The process dies and another one goes on as the same client, without its memory."""
        self.wire.cut()
        self.calls.clear()
        self.holding.clear()
        self.may_return.update(self.handed)
        self.wire = self.new_wire()
        self.service.faults.clear()
        self.wire.connect("alice", client_id=self.client_id)

    @rule(queue=st.integers(0, 1))
    def another_process_becomes_the_client(self, queue: int) -> None:
        """It is there for a while; then this one comes back, by connecting anew."""
        self.take_what_is_done()
        self.wire.cut()
        self.service.faults.clear()
        other = self.new_wire()
        other.connect("alice", client_id=self.client_id)
        self.may_return.update(self.handed)
        self.holding.clear()
        self.check_messages(other.run(ReadCall(self.queues[queue], None, ReadMode.TIME, 0, 2)))
        self.may_return.update(message.message_id for message in self.holding)
        self.holding.clear()
        other.session.begin_close()
        other.settle()
        other.session.end_close()
        self.come_back()

    def come_back(self) -> None:
        self.wire.start(GetQueuesCall(0, 1))
        self.wire.settle()
        self.wire.advance(5)
        self.fenced = True
        self.take_what_is_done()
        self.fenced = False
        assert not self.calls
        self.wire.connect("alice", client_id=self.client_id)

    # what holds

    @invariant()
    def no_put_is_done_twice(self) -> None:
        stored = Counter(body for _, body in self.service.put_bodies)
        assert not stored or max(stored.values()) == 1

    @invariant()
    def puts_keep_their_order(self) -> None:
        """Unless one was refused for a while and those behind it were not."""
        for queue_id in self.queues:
            bodies = [int(body) for queue, body in self.service.put_bodies if queue == queue_id]
            own = [body for body in bodies if body not in self.foreign]
            assert self.faulted or own == sorted(own)

    def teardown(self) -> None:
        if not self.queues:
            return
        self.service.faults.clear()
        self.take_all()
        assert all(isinstance(call, TakingCall) for call in self.calls), "a call never ends"
        self.wire.session.begin_close()
        self.take_all()
        assert self.wire.session.finished
        self.wire.session.end_close()
        self.check_the_store()

    def take_all(self) -> None:
        """Lets everything come to an end that can."""
        before = -1
        while before != len(self.calls):
            before = len(self.calls)
            self.wire.settle()
            self.wire.advance(40)
            for call in [call for call in self.calls if call.phase == DONE]:
                self.take(call)
        self.wire.advance(1)

    def check_the_store(self) -> None:
        assert not [key for key in self.service.operations if key[0] == self.client_id]
        assert not [key for key in self.service.deliveries if key[0] == self.client_id]
        waiting = {message.message_id for queue in self.service.queues.values() for message in queue.messages}
        for message_id in waiting:
            assert not self.handed[message_id] or message_id in self.may_return
        stored = sum(queue.put_total for queue in self.service.queues.values())
        assert len(waiting | set(self.handed)) == stored, "a message is lost"


class ConfirmingClientMachine(ClientMachine):
    """The application confirms each message itself, or gives it back."""

    auto_confirm = False

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self.holding))
        self.holding.remove(message)
        assert message.hand_over is not None
        self.wire.session.confirm([message.hand_over])

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self.holding))
        self.holding.remove(message)
        assert message.hand_over is not None
        self.may_return.add(message.message_id)
        self.calls.append(self.wire.session.give_back([message.hand_over]))

    def take(self, call: Call[Any]) -> None:
        if call in self.put_bodies or isinstance(call, TakingCall):
            super().take(call)
        else:
            self.calls.remove(call)

    def check_the_store(self) -> None:
        self.may_return.update(message.message_id for message in self.holding)
        super().check_the_store()


profile = settings(
    max_examples=120,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("machine", [ClientMachine, ConfirmingClientMachine])
def test_exactly_once_whatever_happens(machine: type[ClientMachine]) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(machine, settings=profile)  # type: ignore[no-untyped-call]
