"""Reads that wait: who is woken, in which order, and what becomes of a wake-up that serves nobody."""

import asyncio

import pytest

from telesto.middleware.cluster.wake_listener import parse_items
from telesto.middleware.common.failures import Failure, failure_of
from telesto.middleware.scheduling.requests import Client, Kind, Pipeline, Read, Wait
from telesto.middleware.waiting.room import WaitingRoom
from telesto.protocol.errors import ErrorCode
from wire import FULL, read

QUEUE = 1


class Room:
    """A waiting room, who was woken and who was answered."""

    def __init__(self, reads_max: int = 100) -> None:
        self.room = WaitingRoom(
            asyncio.get_running_loop(),
            readmit=lambda reader: self.woken.append(reader),
            answer=self._answer,
            whose_read_yields=lambda pipeline, parked, _at_address: pipeline if parked >= reads_max else None,
        )
        self.woken: list[Read] = []
        self.answered: list[tuple[Read, Failure | None]] = []
        self.answer = asyncio.Event()

    def _answer(self, reader: Read, failure: Failure | None) -> None:
        self.answered.append((reader, failure))
        self.answer.set()

    def reader(
        self, client_id: int = 1, *, sender_id: int = 0, by_context: bool = False, wait_s: float | None = None
    ) -> Read:
        pipeline = Pipeline(
            lambda frame: None, lambda: None, lambda client: None, lambda packet_id, outcome: None
        )
        pipeline.client = Client(client_id, 1, FULL)
        deadline = None if wait_s is None else asyncio.get_running_loop().time() + wait_s
        wait = Wait((QUEUE,), deadline, by_context=by_context, selective=by_context or sender_id != 0)
        return Read(pipeline, read(1, QUEUE, sender_id=sender_id), 1, Kind.TAKE, 1, wait)

    def park(self, *readers: Read) -> None:
        """Parks readers that have just found nothing."""
        for reader in readers:
            assert self.room.settle_empty(reader, self.room.clock)

    def put(self, count: int = 1, receiver_id: int = 0) -> None:
        self.room.arrived({(QUEUE, receiver_id): count})

    def found(self, reader: Read, *receivers: int) -> None:
        """A woken reader has scanned; without receivers it found nothing and parks again."""
        self.room.scanned(reader, list(receivers))
        if not receivers:
            self.park(reader)

    def pop_woken(self) -> list[Read]:
        woken, self.woken[:] = list(self.woken), []
        return woken


@pytest.fixture
async def room() -> Room:
    return Room()


async def test_as_many_wake_as_messages_came_first_come_first_served(room: Room) -> None:
    readers = [room.reader(client_id) for client_id in (1, 2, 3)]
    room.park(*readers)
    room.put(2)
    assert room.pop_woken() == readers[:2]
    room.put(5)
    assert room.pop_woken() == readers[2:]


async def test_a_woken_reader_that_parks_again_keeps_its_place(room: Room) -> None:
    first, second = room.reader(1), room.reader(2)
    room.park(first, second)
    room.put()
    assert room.pop_woken() == [first]
    room.found(first)
    room.put()
    assert room.pop_woken() == [first]


async def test_a_directed_message_wakes_only_its_receiver(room: Room) -> None:
    one, two, response = room.reader(1), room.reader(2), room.reader(2, by_context=True)
    room.park(one, two, response)
    room.put(receiver_id=2)
    assert room.pop_woken() == [two]
    room.put(receiver_id=3)
    assert room.pop_woken() == []


async def test_a_message_for_anyone_wakes_nobody_who_waits_for_a_response(room: Room) -> None:
    response, plain = room.reader(1, by_context=True), room.reader(2)
    room.park(response, plain)
    room.put()
    assert room.pop_woken() == [plain]


async def test_a_reader_with_conditions_passes_the_wake_up_on(room: Room) -> None:
    choosy, plain = room.reader(1, sender_id=9), room.reader(2)
    room.park(choosy, plain)
    room.put()
    assert room.pop_woken() == [choosy]
    room.found(choosy)
    assert room.pop_woken() == [plain]
    room.found(plain, 0)
    assert room.pop_woken() == []


async def test_a_wake_up_goes_around_the_line_once(room: Room) -> None:
    early, choosy, other = (
        room.reader(1, sender_id=8),
        room.reader(2, sender_id=9),
        room.reader(3, sender_id=7),
    )
    room.park(early, choosy, other)
    room.put()
    assert room.pop_woken() == [early]
    room.put()
    assert room.pop_woken() == [choosy]
    room.found(early)
    assert room.pop_woken() == [other]
    room.found(other)
    assert room.pop_woken() == []
    room.found(choosy)
    # Behind the end it comes to those that parked again meanwhile, up to where it began.
    assert room.pop_woken() == [other]


async def test_a_reader_that_took_another_message_passes_the_wake_up_on(room: Room) -> None:
    first, second = room.reader(1), room.reader(2)
    room.park(first, second)
    room.put()
    room.pop_woken()
    room.found(first, 1)
    assert room.pop_woken() == [second]


async def test_a_reader_that_is_gone_passes_the_wake_up_on(room: Room) -> None:
    first, second = room.reader(1), room.reader(2)
    room.park(first, second)
    room.put()
    room.pop_woken()
    room.room.leave(first)
    assert room.pop_woken() == [second]


async def test_what_comes_during_a_scan_is_not_missed(room: Room) -> None:
    room.park(room.reader(1))
    late = room.reader(2)
    scanned_at = room.room.clock
    room.put(2)
    assert len(room.pop_woken()) == 1
    assert room.room.settle_empty(late, scanned_at)
    assert room.pop_woken() == [late]
    assert room.room.settle_empty(late, room.room.clock)
    assert room.pop_woken() == []
    assert room.room.parked == 1


async def test_what_comes_for_a_receiver_during_its_scan_is_not_missed(room: Room) -> None:
    room.park(room.reader(1))
    response, other = room.reader(2, by_context=True), room.reader(3)
    scanned_at = room.room.clock
    room.put(receiver_id=2)
    assert room.room.settle_empty(other, scanned_at)
    assert room.room.settle_empty(response, scanned_at)
    assert room.pop_woken() == [response]


async def test_what_woke_others_does_not_make_everybody_scan(room: Room) -> None:
    room.park(room.reader(1))
    late = room.reader(2)
    scanned_at = room.room.clock
    room.put(1)
    room.pop_woken()
    assert room.room.settle_empty(late, scanned_at)
    assert room.pop_woken() == []


async def test_everybody_scans_again_once_others_tell(room: Room) -> None:
    readers = [room.reader(1), room.reader(2)]
    room.park(*readers)
    assert room.room.interest_wanted.is_set()
    assert list(room.room.unregistered) == [QUEUE]
    room.room.interest_known(QUEUE)
    assert not room.room.unregistered
    assert room.pop_woken() == readers
    room.park(*readers)
    room.room.interest_known(QUEUE)
    assert room.pop_woken() == []


async def test_time_runs_out(room: Room) -> None:
    reader = room.reader(1, wait_s=0.5)
    room.park(reader)
    async with asyncio.timeout(60):
        await room.answer.wait()
    assert room.answered == [(reader, None)]
    assert room.room.parked == 0
    assert not room.room.settle_empty(reader, 0)


async def test_a_reader_whose_time_is_up_is_not_parked(room: Room) -> None:
    assert not room.room.settle_empty(room.reader(1, wait_s=0.0), 0)


async def test_a_cancelled_reader_is_answered_empty_and_its_place_is_free(room: Room) -> None:
    first, second = room.reader(1), room.reader(2)
    room.park(first, second)
    assert room.room.cancel(first)
    assert room.answered == [(first, None)]
    room.put()
    assert room.pop_woken() == [second]


async def test_a_reader_that_is_cancelled_while_it_scans_does_not_park(room: Room) -> None:
    reader = room.reader(1)
    room.park(reader)
    room.put()
    room.pop_woken()
    assert not room.room.cancel(reader)
    assert not room.room.settle_empty(reader, room.room.clock)


async def test_readers_of_a_deleted_queue_are_told(room: Room) -> None:
    readers = [room.reader(1), room.reader(2)]
    room.park(*readers)
    room.room.queue_deleted(QUEUE)
    assert [(reader, failure.code) for reader, failure in room.answered if failure] == [
        (reader, ErrorCode.QUEUE_NOT_EXISTING) for reader in readers
    ]
    assert room.room.parked == 0


async def test_the_readers_of_a_connection_that_is_gone_are_forgotten(room: Room) -> None:
    gone, other = room.reader(1), room.reader(2)
    room.park(gone, other)
    room.room.drop([gone])
    room.put()
    assert room.pop_woken() == [other]
    assert not room.answered


async def test_waiting_is_bounded() -> None:
    room = Room(reads_max=1)
    room.park(room.reader(1), room.reader(2))
    assert [failure.code for _, failure in room.answered if failure] == [ErrorCode.OVERLOADED]
    assert room.room.parked == 1


async def test_a_closed_room_answers_everybody(room: Room) -> None:
    room.park(room.reader(1))
    room.room.close(failure_of(ErrorCode.SHUTTING_DOWN, "stop"))
    room.park(room.reader(2))
    assert [failure.code for _, failure in room.answered if failure] == [ErrorCode.SHUTTING_DOWN] * 2


async def test_a_look_for_untold_messages_goes_round(room: Room) -> None:
    readers = [room.reader(client_id) for client_id in (1, 2, 3)]
    room.park(*readers)
    room.room.look_again(QUEUE, 2)
    assert room.pop_woken() == readers[:2]
    for reader in readers[:2]:
        room.found(reader)
    room.room.look_again(QUEUE, 2)
    assert room.pop_woken() == [readers[2], readers[0]]


async def test_queues_that_nobody_waits_for_are_forgotten(room: Room) -> None:
    reader = room.reader(1)
    room.park(reader)
    assert room.room.pop_idle(0.0, 10) == []
    room.room.cancel(reader)
    room.room.interest_known(QUEUE)
    assert not room.room.unregistered
    assert room.room.pop_idle(-1.0, 10) == [QUEUE]
    room.park(room.reader(2))
    assert list(room.room.unregistered) == [QUEUE]


@pytest.mark.parametrize(
    ("items", "expected"),
    [("", ({}, False)), ("1:0:2,1:0:3,7:9:1", ({(1, 0): 5, (7, 9): 1}, False)), ("4:0:0", ({}, True))],
)
def test_notifications_are_read(items: str, expected: object) -> None:
    assert parse_items(items) == expected


@pytest.mark.parametrize("items", ["1", "1:2", "a:b:c", "1:2:3:4"])
def test_unreadable_notifications_are_refused(items: str) -> None:
    with pytest.raises(ValueError, match=r"unpack|invalid literal"):
        parse_items(items)
