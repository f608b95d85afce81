"""The tree of exceptions, and exceptions made from errors that came over the wire."""

import pickle
from typing import Any

import pytest

from telesto.protocol import errors
from telesto.protocol.error_codes import ERRORS
from telesto.protocol.errors import (
    ErrorClass,
    ErrorCode,
    FatalError,
    InDoubtError,
    QueueFullError,
    RejectedError,
    RetryableError,
    TelestoError,
    exception_for,
)
from wire_reference import REFERENCE

BRANCHES: dict[str, type[TelestoError]] = {
    "REJECTED": RejectedError,
    "RETRYABLE": RetryableError,
    "IN_DOUBT": InDoubtError,
    "FATAL": FatalError,
}


@pytest.mark.parametrize("entry", REFERENCE.errors, ids=lambda entry: entry["name"])
def test_each_code_has_its_exception_in_its_branch(entry: dict[str, Any]) -> None:
    info = ERRORS[entry["code"]]
    assert info.code is ErrorCode[entry["name"]]
    assert (info.name, info.error_class.name, info.doc) == (entry["name"], entry["class"], entry["doc"])
    assert info.sqlstate == f"TL{entry['code']:03d}"
    assert info.exception is getattr(errors, entry["exception"])
    assert info.exception.__mro__[1] is BRANCHES[entry["class"]]
    raised = info.exception("what happened")
    assert (raised.code, raised.error_class) == (info.code, info.error_class)
    assert str(raised) == f"{entry['name']}: what happened"


def test_there_is_nothing_else() -> None:
    assert set(ERRORS) == {entry["code"] for entry in REFERENCE.errors} == {code.value for code in ErrorCode}
    assert {entry["exception"] for entry in REFERENCE.errors} <= set(errors.__all__)


def test_an_exception_says_what_it_knows() -> None:
    error = QueueFullError(
        "the queue holds 10 messages",
        related_id=5,
        retry_after=0.25,
        method="PutMessage",
        queue_id=7,
        address="127.0.0.1:7001",
    )
    assert str(error) == (
        "QUEUE_FULL: the queue holds 10 messages "
        "(method PutMessage, queue 7, related id 5, retry after seconds 0.25, at 127.0.0.1:7001)"
    )
    assert str(QueueFullError()) == "QUEUE_FULL: The queue holds as many messages as it may."
    assert str(TelestoError("nothing known")) == "nothing known"
    assert TelestoError("nothing known").code is None


def test_an_exception_can_be_given_another_code_and_class() -> None:
    error = TelestoError("x", code=ErrorCode.QUEUE_FULL, error_class=ErrorClass.FATAL)
    assert (error.code, error.error_class) == (ErrorCode.QUEUE_FULL, ErrorClass.FATAL)
    assert TelestoError.code is None


def test_an_exception_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(QueueFullError("full", queue_id=7, retry_after=1.0)))
    assert type(error) is QueueFullError
    assert (error.details, error.queue_id, error.retry_after) == ("full", 7, 1.0)


def test_a_known_code_gives_its_exception() -> None:
    error = exception_for(25, 1, "full", queue_id=7)
    assert type(error) is QueueFullError
    assert (error.details, error.queue_id, error.error_class) == ("full", 7, ErrorClass.REJECTED)


def test_the_class_on_the_wire_holds_for_a_known_code() -> None:
    assert exception_for(25, 2, "full").error_class is ErrorClass.RETRYABLE
    assert exception_for(25, 99, "full").error_class is ErrorClass.REJECTED


@pytest.mark.parametrize("error_class", list(ErrorClass))
def test_an_unknown_code_gives_the_branch_of_its_class(error_class: ErrorClass) -> None:
    error = exception_for(999, error_class, "from the future", related_id=3)
    assert type(error) is BRANCHES[error_class.name]
    assert error.code is None
    assert error.error_class is error_class
    assert error.related_id == 3
    assert "999" in str(error)
    assert "from the future" in str(error)


def test_an_unknown_class_of_an_unknown_code_promises_nothing() -> None:
    assert type(exception_for(999, 99, "from the future")) is InDoubtError


def test_a_text_names_a_queue_once() -> None:
    assert str(QueueFullError("it is full", queue_id=7, related_id=7)) == "QUEUE_FULL: it is full (queue 7)"


def test_a_class_shows_its_name() -> None:
    error = InDoubtError("perhaps")
    assert (str(error.error_class), f"{error.error_class}") == ("IN_DOUBT", "IN_DOUBT")
    assert error.error_class == 3
