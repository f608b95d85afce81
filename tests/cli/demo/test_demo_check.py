"""The check of the demonstration, with planted faults: a check that cannot fail shows nothing."""

from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesto.cli.demo.check import LineRecord, Verdict, check, read_records
from telesto.cli.demo.lines import from_body, to_body
from telesto.cli.demo.source import digest

LINES = [b"zero\n", b"one\n", b"two\n", b"three\n"]
DIGESTS = array("Q", map(digest, LINES))


def _record(line: int, sender_id: int = 1, message_id: int | None = None) -> LineRecord:
    return LineRecord(line, sender_id, line + 10 if message_id is None else message_id, DIGESTS[line])


def _check(*readers: list[LineRecord]) -> Verdict:
    return check(DIGESTS, readers)


def test_every_line_once_passes() -> None:
    verdict = _check([_record(0), _record(2)], [_record(1), _record(3)])
    assert verdict == Verdict(lines=4, lost=0, duplicated=0, changed=0, unknown=0, out_of_order=0)
    assert verdict.passed


def test_lost_lines_are_counted() -> None:
    verdict = _check([_record(0)], [_record(3)])
    assert (verdict.lost, verdict.passed) == (2, False)


def test_duplicates_are_counted_within_and_across_readers() -> None:
    verdict = _check([_record(0), _record(0), _record(1)], [_record(1), _record(2), _record(3)])
    assert (verdict.duplicated, verdict.lost, verdict.passed) == (2, 0, False)


def test_changed_lines_are_counted() -> None:
    changed = _record(1)._replace(digest=digest(b"One\n"))
    verdict = _check([_record(0), changed, _record(2), _record(3)])
    assert (verdict.changed, verdict.passed) == (1, False)


def test_lines_nobody_sent_are_counted() -> None:
    verdict = _check([*map(_record, range(4)), LineRecord(4, 1, 14, 0)])
    assert (verdict.unknown, verdict.passed) == (1, False)


def test_reader_that_gets_a_producers_lines_out_of_order() -> None:
    verdict = _check([_record(1), _record(0), _record(2), _record(3)])
    assert (verdict.out_of_order, verdict.passed) == (1, False)


def test_lines_of_several_producers_may_mix() -> None:
    verdict = _check([_record(1, 1), _record(0, 2), _record(3, 1), _record(2, 2)])
    assert verdict.passed


def test_lines_that_arrived_in_the_queue_out_of_order() -> None:
    verdict = _check([_record(0, message_id=12), _record(1, message_id=11)], [_record(2), _record(3)])
    assert (verdict.out_of_order, verdict.passed) == (1, False)


def test_empty_text_passes_and_one_reader_may_get_nothing() -> None:
    assert check(array("Q"), [[], []]).passed
    assert _check([], [*map(_record, range(4))]).passed


def test_records_survive_the_file(tmp_path: Path) -> None:
    records = [_record(number) for number in range(4)]
    (tmp_path / "records").write_bytes(b"".join(record.pack() for record in records))
    assert list(read_records(tmp_path / "records")) == records


@given(number=st.integers(min_value=0, max_value=2**40), line=st.binary())
def test_bodies_carry_number_and_line(number: int, line: bytes) -> None:
    assert from_body(to_body(number, line)) == (number, line)


@pytest.mark.parametrize("body", [b"", b"no tab", b"\tno number", b"-1\tx"])
def test_body_of_other_origin_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="not the body of a line"):
        from_body(body)
