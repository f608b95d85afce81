"""How requests are gathered: order, fairness, what is busy, what fails."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from telesto.middleware.common.failures import LostError, RefusedError, UnavailableError
from telesto.middleware.scheduling.requests import Kind
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from workbench import Workbench, bodies, error_row, message_row, no_call, put_all, take_nothing


@asynccontextmanager
async def workbench(
    put_procedure: Callable[..., list[Any]] = put_all,
    take_procedure: Callable[..., list[Any]] = take_nothing,
    **settings: Any,
) -> AsyncIterator[Workbench]:
    bench = Workbench(put_procedure, take_procedure, **settings)
    try:
        yield bench
    finally:
        await bench.close()


async def first_call(bench: Workbench, link: str = "PUT") -> tuple[Any, ...]:
    async with asyncio.timeout(20):
        return await bench.connections[link].called.get()


async def test_one_request_goes_at_once_and_the_rest_gathers_meanwhile() -> None:
    async with workbench() as bench:
        sender = bench.sender(1)
        sender.put(1, body=b"a")
        assert bodies(await first_call(bench)) == [b"a"]
        for body in (b"b", b"c", b"d"):
            sender.put(1, body=body)
        bench.go(1)
        assert bodies(await first_call(bench)) == [b"b", b"c", b"d"]


async def test_requests_of_one_connection_keep_their_order_across_kinds() -> None:
    async with workbench() as bench:
        sender = bench.sender(1)
        sender.put(1, body=b"a")
        sender.put(1, body=b"b")
        sender.read(1)
        sender.put(1, body=b"c")
        assert bodies(await first_call(bench)) == [b"a", b"b"]
        assert not bench.connections["TAKE"].calls
        bench.go(1)
        await first_call(bench, "TAKE")
        assert len(bench.connections["PUT"].calls) == 1
        bench.go()
        await bench.until(lambda: len(sender.order) == 4)
        assert sender.order == [1, 2, 3, 4]


async def test_a_connection_that_pipelines_leaves_space_for_the_others() -> None:
    async with workbench(quantum=2, max_batch=6) as bench:
        greedy = bench.sender(1)
        greedy.put(1, body=b"first")
        await first_call(bench)
        for number in range(10):
            greedy.put(1, body=b"g%d" % number)
        others = [bench.sender(client_id) for client_id in (2, 3)]
        for other in others:
            for _ in range(3):
                other.put(1, body=b"o")
        bench.go(1)
        second = bodies(await first_call(bench))
        assert second == [b"o", b"o", b"o", b"o", b"g0", b"g1"] or second == [
            b"g0",
            b"g1",
            b"o",
            b"o",
            b"o",
            b"o",
        ]
        bench.go(1)
        third = bodies(await first_call(bench))
        assert third.count(b"o") == 2
        bench.go()
        await bench.until(lambda: len(greedy.order) == 11)
        assert greedy.order == list(range(1, 12))


async def test_a_lonely_connection_fills_the_batch() -> None:
    async with workbench(quantum=2, max_batch=100) as bench:
        sender = bench.sender(1)
        sender.put(1)
        await first_call(bench)
        for _ in range(60):
            sender.put(1)
        bench.go(1)
        assert len(bodies(await first_call(bench))) == 60


async def test_a_batch_is_bounded_in_number_and_in_bytes() -> None:
    async with workbench(max_batch=5, max_batch_bytes=300) as bench:
        senders = [bench.sender(client_id) for client_id in range(1, 9)]
        for sender in senders:
            sender.put(1)
        sizes = [len(bodies(await first_call(bench)))]
        for _ in range(2):
            bench.go(1)
            sizes.append(len(bodies(await first_call(bench))))
        assert sizes == [3, 3, 2]


async def test_gathering_can_be_switched_off() -> None:
    async with workbench(max_batch=1) as bench:
        senders = [bench.sender(client_id) for client_id in (1, 2, 3)]
        for sender in senders:
            sender.put(1)
        bench.go()
        await bench.until(lambda: all(sender.answers for sender in senders))
        assert [len(bodies(call)) for call in bench.connections["PUT"].calls] == [1, 1, 1]


async def test_what_is_busy_is_tried_again_in_order_and_apart() -> None:
    tries: list[list[bytes]] = []

    def procedure(*arguments: Any) -> list[Any]:
        tries.append(bodies(arguments))
        if len(tries) > 1:
            return put_all(*arguments)
        # The queue of the second request is locked elsewhere: it and what follows it is held up.
        return [([None, -1, -1], [1, 0, 0])]

    async with workbench(procedure) as bench:
        sender = bench.sender(1)
        for queue_id, body in ((1, b"a"), (2, b"b"), (2, b"c")):
            sender.put(queue_id, body=body)
        bench.go()
        await bench.until(lambda: len(sender.order) == 3)
        assert tries == [[b"a", b"b", b"c"], [b"b", b"c"]]
        assert sender.order == [1, 2, 3]
        assert len(bench.connections["PUT apart"].calls) == 1
        sender.put(1)
        await bench.until(lambda: len(sender.order) == 4)
        assert len(bench.connections["PUT"].calls) == 2


async def test_calls_of_busy_requests_are_for_one_queue_each() -> None:
    busy_once = {2, 3}

    def procedure(*arguments: Any) -> list[Any]:
        queue_ids = arguments[5]
        errors = [-1 if queue_id in busy_once else None for queue_id in queue_ids]
        busy_once.clear()
        return [(errors, [0 if error else 1 for error in errors])]

    async with workbench(procedure) as bench:
        senders = [bench.sender(client_id) for client_id in (1, 2, 3, 4)]
        for sender, queue_id in zip(senders, (2, 3, 2, 3), strict=True):
            sender.put(queue_id)
        bench.go()
        await bench.until(lambda: all(sender.answers for sender in senders))
        apart = [set(call[5]) for call in bench.connections["PUT apart"].calls]
        assert all(len(queue_ids) == 1 for queue_ids in apart)


async def test_what_stays_busy_is_given_up() -> None:
    def procedure(*arguments: Any) -> list[Any]:
        return [([-1] * len(arguments[4]), [0] * len(arguments[4]))]

    async with workbench(procedure, busy_limit_s=0.05, busy_backoff_max_ms=2) as bench:
        sender = bench.sender(1)
        sender.put(1)
        bench.go()
        await bench.until(lambda: sender.answers)
        answer = sender.answers[1]
        assert (answer.code, answer.error_class) == (ErrorCode.OVERLOADED, ErrorClass.RETRYABLE)
        assert not sender.pipeline.unconfirmed


async def test_a_poisonous_request_is_found_and_hurts_nobody_else() -> None:
    def procedure(*arguments: Any) -> list[Any]:
        if b"poison" in arguments[9]:
            raise RefusedError("22021", "invalid")
        return put_all(*arguments)

    async with workbench(procedure) as bench:
        senders = [bench.sender(client_id) for client_id in range(1, 8)]
        for sender in senders:
            sender.put(1, body=b"poison" if sender is senders[4] else b"good")
        bench.go()
        await bench.until(lambda: all(sender.answers for sender in senders))
        codes = [getattr(sender.answers[1], "code", None) for sender in senders]
        assert codes == [None] * 4 + [ErrorCode.INTERNAL_ERROR] + [None] * 2
        assert senders[4].answers[1].error_class is ErrorClass.REJECTED


async def test_a_split_keeps_the_order_behind_what_is_busy() -> None:
    calls: list[list[bytes]] = []

    def procedure(*arguments: Any) -> list[Any]:
        calls.append(bodies(arguments))
        if len(calls) == 1:
            raise RefusedError("53200", "out of shared memory")
        if len(calls) == 2:
            return [([-1, -1], [0, 0])]
        return put_all(*arguments)

    async with workbench(procedure) as bench:
        sender, other = bench.sender(1), bench.sender(2)
        for body in (b"a", b"b", b"c"):
            sender.put(1, body=body)
        other.put(1, body=b"other")
        bench.go()
        await bench.until(lambda: len(sender.order) == 3 and other.answers)
        assert calls[1:] == [[b"a", b"b"], [b"other"], [b"a", b"b", b"c"]]
        assert sender.order == [1, 2, 3]


async def test_an_error_of_telesto_keeps_its_code() -> None:
    def procedure(*arguments: Any) -> list[Any]:
        raise RefusedError("TL007", "there is no queue 1")

    async with workbench(procedure) as bench:
        sender = bench.sender(1)
        sender.put(1)
        bench.go()
        await bench.until(lambda: sender.answers)
        assert sender.answers[1].code == ErrorCode.QUEUE_NOT_EXISTING


async def test_a_lost_call_is_in_doubt_and_its_clients_are_kept_apart() -> None:
    lost = [True]

    def procedure(*arguments: Any) -> list[Any]:
        if lost.pop() if lost else False:
            raise LostError("gone")
        return put_all(*arguments)

    async with workbench(procedure, quarantine_batch=2) as bench:
        suspect, other = bench.sender(1), bench.sender(2)
        suspect.put(1)
        bench.go(1)
        await bench.until(lambda: suspect.answers)
        assert suspect.answers[1].error_class is ErrorClass.IN_DOUBT
        assert len(bench.connections["PUT"].calls) == 1
        await first_call(bench)

        other.put(1)
        await first_call(bench)
        suspect.put(1, resumes=True)
        for _ in range(2):
            suspect.put(1)
        other.put(1)
        bench.go()
        await bench.until(lambda: len(suspect.order) == 4 and len(other.order) == 2)
        batches = [call[0] for call in bench.connections["PUT"].calls[1:]]
        assert all(len(set(clients)) == 1 for clients in batches)
        assert max(clients.count(1) for clients in batches) == 2


async def test_without_a_database_nothing_was_done() -> None:
    def procedure(*arguments: Any) -> list[Any]:
        raise UnavailableError("no connection")

    async with workbench(procedure) as bench:
        sender = bench.sender(1)
        sender.put(1)
        bench.go()
        await bench.until(lambda: sender.answers)
        answer = sender.answers[1]
        assert (answer.code, answer.error_class) == (ErrorCode.DATABASE_UNAVAILABLE, ErrorClass.RETRYABLE)
        assert not sender.pipeline.unconfirmed


async def test_rows_that_make_no_sense_leave_doubt() -> None:
    async with workbench(lambda *_: [("nonsense",)]) as bench:
        sender = bench.sender(1)
        sender.put(1)
        bench.go()
        await bench.until(lambda: sender.answers)
        answer = sender.answers[1]
        assert (answer.code, answer.error_class) == (ErrorCode.INTERNAL_ERROR, ErrorClass.IN_DOUBT)


async def test_a_refusal_keeps_order_until_it_is_confirmed() -> None:
    full = True

    def procedure(*arguments: Any) -> list[Any]:
        errors = [25 if queue_id < 0 or (full and queue_id == 1) else None for queue_id in arguments[5]]
        return [(errors, [0 if error else 7 for error in errors])]

    async with workbench(procedure) as bench:
        sender = bench.sender(1)
        sender.put(1)
        await first_call(bench)
        sender.put(1)
        sender.put(2)
        sender.put(1, 2)

        def errors_of(packet_id: int) -> list[int | None]:
            return [result.error for result in sender.answers[packet_id].results]

        full_answer_is_out = bench.until(lambda: len(sender.order) == 4)
        bench.go()
        full = True
        await full_answer_is_out
        full = False
        assert errors_of(1) == [ErrorCode.QUEUE_FULL]
        assert errors_of(2) == [ErrorCode.QUEUE_FULL]
        assert errors_of(3) == [None]
        assert errors_of(4) == [ErrorCode.QUEUE_FULL, None]

        sender.put(1)
        sender.put(1, confirmed=[1])
        sender.put(1)
        await bench.until(lambda: len(sender.order) == 7)
        assert errors_of(5) == [ErrorCode.QUEUE_FULL]
        assert [errors_of(packet_id) for packet_id in (6, 7)] == [[None], [None]]


async def test_a_fenced_session_ends_its_connection_after_the_answers() -> None:
    async with workbench(lambda *_: [([20, 20, None], [0, 0, 5])]) as bench:
        fenced, other = bench.sender(1), bench.sender(2)
        fenced.put(1)
        fenced.put(1)
        other.put(1)
        bench.go()
        await bench.until(lambda: len(fenced.order) == 2 and other.answers)
        assert {answer.code for answer in fenced.answers.values()} == {ErrorCode.SESSION_FENCED}
        assert fenced.finished
        assert not other.finished


async def test_what_comes_is_told_by_queue_and_receiver() -> None:
    async with workbench() as bench:
        sender = bench.sender(1)
        sender.put(1)
        sender.put(1)
        sender.put(1, 2, receiver_id=9)
        bench.go()
        await bench.until(lambda: len(sender.order) == 3)
        assert bench.told == [{(1, 0): 2, (1, 9): 1, (2, 9): 1}]


async def test_the_budget_returns_to_nothing() -> None:
    async with workbench() as bench:
        sender = bench.sender(1)
        for _ in range(5):
            sender.put(1)
            sender.read(1)
        assert bench.budget.requests == 10
        bench.go()
        await bench.until(lambda: len(sender.order) == 10)
        assert (bench.budget.requests, bench.budget.bytes, sender.pipeline.size) == (0, 0, 0)
        assert bench.counters.of_kind[Kind.PUT].requests == 5


async def test_a_read_whose_share_is_too_small_is_granted_more() -> None:
    granted: list[list[int]] = []

    def procedure(*arguments: Any) -> list[Any]:
        max_bytes = arguments[5]
        granted.append(max_bytes)
        return [
            message_row(request, body=bytes(700)) if size >= 700 else error_row(request, 26, 77)
            for request, size in enumerate(max_bytes, 1)
        ]

    async with workbench(take_procedure=procedure, max_answer_bytes=4_096) as bench:
        senders = [bench.sender(client_id) for client_id in range(1, 21)]
        for sender in senders:
            sender.read(1)
        bench.go()
        await bench.until(lambda: all(sender.answers for sender in senders))
        assert all(len(sender.answers[1].messages) == 1 for sender in senders)
        assert granted[0] == [204] * 20
        # More means fewer in a call.
        assert {len(sizes) for sizes in granted[1:]} == {5}
        senders[0].read(1)
        await bench.until(lambda: len(senders[0].answers) == 2)
        assert bench.expected_sizes.of(1) >= 816
        assert bench.expected_sizes.of(2) == 0


async def test_the_heaviest_read_goes_alone_and_gets_all_that_its_client_accepts() -> None:
    granted: list[list[int]] = []

    def procedure(*arguments: Any) -> list[Any]:
        granted.append(arguments[5])
        return [
            message_row(request, body=bytes(9_000)) if size >= 9_000 else error_row(request, 26, 77)
            for request, size in enumerate(arguments[5], 1)
        ]

    async with workbench(take_procedure=procedure, max_answer_bytes=2_048) as bench:
        senders = [bench.sender(client_id) for client_id in (1, 2)]
        for sender in senders:
            sender.read(1)
        bench.go()
        await bench.until(lambda: all(sender.answers for sender in senders))
        assert [len(sizes) for sizes in granted] == [2, 1, 1]
        assert all(sizes[0] > 1 << 19 for sizes in granted[1:])


@pytest.mark.parametrize("locked", [0, 1_000])
async def test_queues_are_free_before_much_is_sent(locked: int) -> None:
    """What is sent while they are locked is bounded, whatever it is that is found in them."""
    granted: list[tuple[int, list[int]]] = []

    def procedure(*arguments: Any) -> list[Any]:
        granted.append((link().large_calls, arguments[5]))
        return [
            message_row(request, body=bytes(700)) if size >= 700 else error_row(request, 26, 77)
            for request, size in enumerate(arguments[5], 1)
        ]

    def link() -> Any:
        return bench.connections["TAKE"]

    async with workbench(
        take_procedure=procedure, max_answer_bytes=8_192, locked_answer_bytes=locked
    ) as bench:
        senders = [bench.sender(client_id) for client_id in range(1, 11)]
        for sender in senders:
            sender.read(1)
        bench.go()
        await bench.until(lambda: all(sender.answers for sender in senders))
        if not locked:
            assert granted == [(0, [819] * 10)]
            return
        assert granted[0] == (0, [100] * 10)
        large = 0
        for large_calls, sizes in granted[1:]:
            assert large_calls > large or sum(sizes) <= locked
            large = large_calls
        assert large > 0
        # Of one message, or of light ones, there is never too much.
        calls = link().large_calls
        senders[0].read(1)
        await bench.until(lambda: len(senders[0].answers) == 2)
        assert link().large_calls == calls


async def test_a_message_beyond_what_the_reader_accepts_is_an_answer() -> None:
    async with workbench(take_procedure=lambda *_: [error_row(1, 26, 77)]) as bench:
        sender = bench.sender(1)
        sender.read(1, max_bytes=10)
        bench.go()
        await bench.until(lambda: sender.answers)
        answer = sender.answers[1]
        assert (answer.code, answer.related_id) == (ErrorCode.MESSAGE_TOO_LARGE, 77)


@pytest.mark.parametrize("max_messages", [1, 1_000_000])
async def test_an_answer_fits_the_frame(max_messages: int) -> None:
    asked: list[tuple[int, int]] = []

    def procedure(*arguments: Any) -> list[Any]:
        asked.append((arguments[4][0], arguments[5][0]))
        return []

    async with workbench(take_procedure=procedure) as bench:
        sender = bench.sender(1)
        sender.pipeline.frame_bytes = 4_096
        sender.read(1, max_messages=max_messages)
        bench.go()
        await bench.until(lambda: sender.answers)
        count, size = asked[0]
        body = b"x" * (size // count)
        messages = [packets.Message(1, 1, 1, 1, 1, 1, 1, False, body, 1)] * count
        assert len(packets.ReadMessageResponse(messages).encode(1)) - 4 <= 4_096


async def test_a_call_that_the_server_ended_blames_nobody() -> None:
    def procedure(*arguments: Any) -> list[Any]:
        raise LostError("terminating connection due to administrator command", suspicious=False)

    async with workbench(procedure) as bench:
        sender = bench.sender(1)
        sender.put(1)
        bench.go()
        await bench.until(lambda: sender.answers)
        assert sender.answers[1].error_class is ErrorClass.IN_DOUBT
        assert len(bench.dispatcher.quarantine) == 0


async def test_what_was_refused_for_now_is_not_overtaken() -> None:
    away = [True]

    def procedure(*arguments: Any) -> list[Any]:
        if away.pop() if away else False:
            raise UnavailableError("no connection")
        return put_all(*arguments)

    async with workbench(procedure, max_batch=1) as bench:
        sender, other = bench.sender(1), bench.sender(2)
        for _ in range(3):
            sender.put(1)
        other.put(1)
        bench.go()
        await bench.until(lambda: len(sender.order) == 3 and other.answers)
        codes = [sender.answers[packet_id].code for packet_id in (1, 2, 3)]
        assert codes == [ErrorCode.DATABASE_UNAVAILABLE] * 3
        assert other.answers[1].results[0].error is None
        sender.put(1)
        sender.put(1, resumes=True)
        sender.put(1)
        await bench.until(lambda: len(sender.order) == 6)
        assert sender.answers[4].code == ErrorCode.DATABASE_UNAVAILABLE
        assert [sender.answers[packet_id].results[0].error for packet_id in (5, 6)] == [None, None]


async def test_what_stands_behind_a_poisonous_request_for_now_is_not_executed() -> None:
    def procedure(*arguments: Any) -> list[Any]:
        if any(body == b"poison" for body in arguments[9]):
            raise RefusedError("53200", "out of memory")
        return put_all(*arguments)

    async with workbench(procedure) as bench:
        blocker, sender, other = bench.sender(3), bench.sender(1), bench.sender(2)
        blocker.put(1)
        await first_call(bench)
        sender.put(1)
        sender.put(1, body=b"poison")
        sender.put(1)
        other.put(1)
        bench.go()
        await bench.until(lambda: len(sender.order) == 3 and other.answers)
        assert sender.answers[1].results[0].error is None
        assert sender.answers[2].error_class is ErrorClass.RETRYABLE
        assert sender.answers[3].error_class is ErrorClass.RETRYABLE
        assert other.answers[1].results[0].error is None


async def test_a_batch_may_turn_out_empty() -> None:
    async with workbench(put_all) as bench:
        assert await bench.effects.before([], no_call) == []
