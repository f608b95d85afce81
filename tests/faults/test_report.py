"""The report counts what faults met, and for how long."""

import logging
from pathlib import Path

import pytest

from telesto.client.bookkeeping.consumer_calls import AckCall, log_unanswered
from telesto.client.models import LeaseId

from .clients.history import DONE, Event, Fault, PutBegan, PutEnded, ReadBegan
from .report import recoveries_of, struck_kinds, table
from .service.logs import client_complaints


def put(number: int, began: float, ended: float) -> list[Event]:
    key = f"key-{number}"
    return [
        PutBegan("producer", 1, began, number, key, 1, 5),
        PutEnded("producer", 1, ended, number, key, 1, DONE, number),
    ]


def fault(kind: str, at: float, effect: int = 1) -> Fault:
    return Fault(kind, 1, at, at + 1.0, "middleware-1", effect)


def test_a_fault_holds_up_the_puts_that_were_under_way() -> None:
    events: list[Event] = [*put(1, 0.0, 3.0), *put(2, 0.5, 1.5), *put(3, 1.2, 9.0), fault("cut", 1.0)]
    (cut,) = recoveries_of(events)
    assert (cut.kind, cut.struck, cut.met, cut.held_s) == ("cut", 1, 2, [2.0])
    assert "| cut | 1 | 2 | 2.00 | 2.00 |" in table([cut])


def test_a_fault_without_effect_is_none() -> None:
    assert recoveries_of([*put(1, 0.0, 3.0), fault("cut", 1.0, effect=0)]) == []


def test_a_fault_that_met_nothing_is_counted_without_a_time() -> None:
    (cut,) = recoveries_of([*put(1, 0.0, 0.5), fault("cut", 1.0)])
    assert (cut.struck, cut.met, cut.held_s) == (1, 0, [])


def test_a_put_that_never_returned_counts_as_struck_and_has_no_time() -> None:
    events: list[Event] = [put(1, 0.0, 1.0)[0], fault("kill-client", 0.5)]
    assert struck_kinds(events) == {"kill-client"}
    assert recoveries_of(events)[0].held_s == []


def test_a_read_under_way_is_met_too() -> None:
    events: list[Event] = [ReadBegan("reader", 1, 0.0, 1, [1], 5.0), fault("cut", 0.5), fault("slow", -1.0)]
    assert struck_kinds(events) == {"cut"}


@pytest.mark.parametrize("count", [1, 3])
def test_what_a_client_says_when_no_middleware_answers_its_end_is_no_complaint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    call = AckCall(1, [LeaseId(1, 2, number) for number in range(count)])
    call.on_done = print
    with caplog.at_level(logging.WARNING):
        log_unanswered([call])
    log = tmp_path / "client.log"
    log.write_text("\n".join([*caplog.messages, "something else"]))
    assert list(client_complaints(log)) == ["client.log says: something else"]
    assert len(caplog.messages) == 1
