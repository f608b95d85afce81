"""Random interleavings of calls, cut connections, writes of the state, crashes and restarts.

However they fall: a put whose call said that it was done is stored once; one that was under way when the
process died, and whose intent was written, is stored once in the end, and the application is told so; one
whose call said that nothing was done is never stored. A message comes to the application again only if it
died before it came back for the next one, and then marked.
"""

from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from harness import Wire
from memory_state import MemoryState
from telesto.client.calls.queue_calls import DONE, Call, ConfirmCall, ReadCall
from telesto.client.errors import NotDoneError, OutcomeUnknownError, StateWriteError
from telesto.client.io.shared import told_one_by_one
from telesto.client.models import Message, RecoveredPut
from telesto.client.options import ClientOptions
from telesto.protocol.errors import ErrorClass, TelestoError
from telesto.protocol.packets import ReadMode
from test_client_exactly_once import ClientMachine, profile


class DurableMachine(ClientMachine):
    """One client with a state, in one process after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.state = MemoryState()
        #: Bodies of puts of which nobody has heard what became of them.
        self.open_bodies: set[bytes] = set()
        #: Bodies that are not stored and never will be; those of them of which the put's call said so.
        self.never: set[bytes] = set()
        self.refused: set[bytes] = set()
        self.once: set[bytes] = set()
        #: Messages that the application has, by queue; those that it came back from with a read under way.
        self.in_hand: dict[int, list[int]] = {}
        self.coming_back: dict[Call[Any], list[int]] = {}
        self.settled: set[int] = set()

    def new_wire(self) -> Wire:
        options = ClientOptions(max_recovered=2, auto_confirm=self.auto_confirm, max_tries=4)
        return Wire(self.clock, self.service, options, state=self.state)

    @initialize(window=st.sampled_from([2, 5, 1024]), rows=st.sampled_from([1, 3, 1000]))
    def begin(self, window: int, rows: int) -> None:
        super().begin(window, rows)
        self.wire.advance(1)

    # what the application knows

    def take(self, call: Call[Any]) -> None:
        if isinstance(call, ConfirmCall):
            self.calls.remove(call)
            try:
                self.wire.session.take(call)
            except StateWriteError:
                self.coming_back.pop(call, None)
            self.settled.update(self.coming_back.pop(call, []))
            return
        failed = call.error
        super().take(call)
        if call in self.put_bodies:
            self.note_put(self.put_bodies[call], failed)
        came_back = self.coming_back.pop(call, [])
        if failed is None:
            self.settled.update(came_back)

    def note_put(self, bodies: list[bytes], error: TelestoError | None) -> None:
        if error is None:
            self.once.update(bodies)
        elif error.error_class in (ErrorClass.REJECTED, ErrorClass.RETRYABLE):
            self.refused.update(bodies)
            self.never.update(bodies)
        else:
            self.open_bodies.update(bodies)

    def check_error(self, call: Call[Any], error: TelestoError) -> None:
        if not isinstance(error, StateWriteError):
            super().check_error(call, error)
        elif call in self.put_bodies:
            stored = {body for _, body in self.service.put_bodies}
            assert not stored.intersection(self.put_bodies[call])

    def check_messages(self, messages: list[Message]) -> None:
        for message in messages:
            assert message.message_id not in self.settled, "handed over although it was taken"
        super().check_messages(messages)
        if self.auto_confirm:
            for message in messages:
                self.in_hand.setdefault(message.queue_id, []).append(message.message_id)

    @rule(
        queue=st.integers(0, 1),
        timeout=st.sampled_from([0, 1, None]),
        most=st.integers(1, 3),
        mode=st.sampled_from(ReadMode),
    )
    def read(self, queue: int, timeout: float | None, most: int, mode: ReadMode) -> None:
        super().read(queue, timeout, most, mode)
        self.coming_back[self.calls[-1]] = self.in_hand.pop(self.queues[queue], [])

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        before = set(self.calls)
        super().abandon(data)
        for call in before - set(self.calls):
            self.open_bodies.update(self.put_bodies.get(call, []))
            self.coming_back.pop(call, None)

    # the state

    @rule(wait=st.booleans())
    def let_writes_wait(self, wait: bool) -> None:
        self.wire.writes_wait = wait

    @rule()
    def begin_write(self) -> None:
        self.wire.begin_write()

    @rule()
    def end_write(self) -> None:
        self.wire.end_write()

    @rule(broken=st.booleans())
    def break_the_disk(self, broken: bool) -> None:
        self.state.broken = broken
        self.faulted = self.faulted or broken

    def advance(self, seconds: float) -> None:  # type: ignore[override]
        raise NotImplementedError

    @rule(seconds=st.sampled_from([0.01, 0.06, 1.1, 11, 35]))
    def let_time_pass(self, seconds: float) -> None:
        self.wire.writes_wait = False
        self.wire.advance(seconds)

    # one process after the other

    @rule(written=st.booleans())
    def crash(self, written: bool) -> None:  # type: ignore[override]
        """The process dies, perhaps right after a write; the next one has its state."""
        changes = self.wire.writing
        if written and changes is not None:
            self.state.try_write(changes)
        self.die()
        self.go_on()

    @rule(queue=st.integers(0, 1), written=st.booleans())
    def crash_and_let_another_process_be_the_client(self, queue: int, written: bool) -> None:
        self.die()
        self.service.faults.clear()
        self.may_return.update(self.handed)
        self.settled.clear()
        options = ClientOptions(max_recovered=2)
        other = Wire(self.clock, self.service, options)
        other.connect(client_id=self.client_id)
        ClientMachine.check_messages(self, other.run(ReadCall(self.queues[queue], None, ReadMode.TIME, 0, 2)))
        self.holding.clear()
        other.session.begin_close()
        other.settle()
        other.session.end_close()
        self.go_on()

    def die(self) -> None:
        self.wire.cut()
        for call in self.calls:
            self.open_bodies.update(self.put_bodies.get(call, []))
        self.calls.clear()
        self.holding.clear()
        self.in_hand.clear()
        self.coming_back.clear()
        self.may_return.update(set(self.handed) - self.settled)

    def go_on(self) -> None:
        self.state.broken = False
        self.service.faults.clear()
        self.wire = self.new_wire()
        self.wire.connect("alice")

    @rule()
    def ask_what_became_of_puts(self) -> None:
        self.wire.writes_wait = False
        self.state.broken = False
        self.service.faults.clear()
        call = self.wire.session.when_settled()
        self.wire.settle()
        self.wire.advance(5)
        if call.phase != DONE:
            self.wire.session.abandon(call)
            return
        self.wire.finish(call)
        for put in told_one_by_one(self.wire.session):
            self.check_recovered(put)

    def check_recovered(self, put: RecoveredPut) -> None:
        body = put.message.body
        stored = Counter(body for _, body in self.service.put_bodies)
        assert body not in self.refused, "told of a put whose call said that nothing was done"
        if put.error is None:
            assert stored[body] == 1
            self.once.add(body)
        elif isinstance(put.error, NotDoneError):
            assert body not in self.once
            assert not stored[body]
            self.never.add(body)
        else:
            assert isinstance(put.error, OutcomeUnknownError), repr(put.error)
        self.open_bodies.discard(body)

    @rule(queue=st.integers(0, 1))
    def another_process_becomes_the_client(self, queue: int) -> None:
        self.wire.writes_wait = False
        self.state.broken = False
        self.settle()
        self.take_what_is_done()
        for call in self.calls:
            self.open_bodies.update(self.put_bodies.get(call, []))
        self.settled.clear()
        self.in_hand.clear()
        self.coming_back.clear()
        self.wire.cut()
        self.service.faults.clear()
        other = Wire(self.clock, self.service, ClientOptions(max_recovered=2))
        other.connect(client_id=self.client_id)
        self.may_return.update(self.handed)
        self.holding.clear()
        ClientMachine.check_messages(self, other.run(ReadCall(self.queues[queue], None, ReadMode.TIME, 0, 2)))
        self.may_return.update(self.handed)
        self.holding.clear()
        other.session.begin_close()
        other.settle()
        other.session.end_close()
        self.come_back()

    def teardown(self) -> None:
        if not self.queues:
            return
        self.wire.writes_wait = False
        self.state.broken = False
        self.service.faults.clear()
        self.take_all()
        self.ask_what_became_of_puts()
        super().teardown()
        self.wire.write()
        stored = Counter(body for _, body in self.service.put_bodies)
        assert all(stored[body] == 1 for body in self.once)
        assert not any(stored[body] for body in self.never)
        assert not self.state.requests
        assert not self.state.hand_overs

    def take_all(self) -> None:
        super().take_all()
        self.in_hand.clear()


class ConfirmingDurableMachine(DurableMachine):
    """The application confirms each message itself."""

    auto_confirm = False

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self.holding))
        self.holding.remove(message)
        assert message.hand_over is not None
        call = self.wire.session.confirm([message.hand_over])
        self.calls.append(call)
        self.coming_back[call] = [message.message_id]

    def check_the_store(self) -> None:
        self.may_return.update(message.message_id for message in self.holding)
        super().check_the_store()


def test_a_put_given_up_before_its_caller_was_told_is_told_of_once() -> None:
    machine = DurableMachine()
    try:
        machine.begin(window=2, rows=1)
        machine.put_many(queue=0)
        machine.lose_the_requests()
        machine.break_the_disk(broken=True)
        machine.let_time_pass(seconds=35)
    finally:
        machine.teardown()


@pytest.mark.parametrize("machine", [DurableMachine, ConfirmingDurableMachine])
def test_exactly_once_beyond_the_process(machine: type[DurableMachine]) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(machine, settings=profile)  # type: ignore[no-untyped-call]
