"""Tasks are declared, put and run."""

import asyncio
import logging
import math
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from task_workers import PATIENCE_S, until, working
from telesto.client import (
    InvalidParameterError,
    Message,
    MessageRejectedError,
    NewMessage,
    QueueSettingsDifferError,
    TelestoClient,
)
from telesto.tasks import App, TaskTimeoutError, Worker, current_message


class Order(BaseModel):
    number: int
    placed: datetime


@dataclass
class Place:
    city: str


async def test_functions_and_coroutines_run_with_their_arguments(
    app: App, queue: str, client: TelestoClient
) -> None:
    ran: list[Any] = []

    @app.task(queue=queue)
    def plain(number: int, *, text: str = "x") -> None:
        ran.append((number, text, current_message().headers["task"], threading.current_thread().name))

    @app.task(queue=queue, name="other")
    async def coroutine(order: Order, place: Place | None = None) -> None:
        ran.append((order, place, current_message().headers["tenant"]))

    order = Order(number=7, placed=datetime(2026, 1, 1, tzinfo=UTC))
    async with working(app):
        await plain.put_async(1)
        await coroutine.options(headers={"tenant": "north"}).put_async(order, place=Place("Ulm"))
        await until(lambda: len(ran) == 2)
        # What was under way when the worker ends is acknowledged.
    assert sorted(ran, key=len) == [(order, Place("Ulm"), "north"), (1, "x", "plain", "task plain")]
    assert client.queue(queue).statistics().depth == 0
    assert list(client.queue(queue).dead_letters()) == []


def test_a_call_calls_the_function_itself(app: App, queue: str) -> None:
    @app.task(queue=queue)
    def add(one: int, two: int = 2) -> int:
        return one + two

    assert add(1) == 3
    with pytest.raises(LookupError):
        current_message()


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "missing a required argument: 'number'"),
        ((1, 2, 3), {}, "too many"),
        ((1,), {"other": 1}, "other"),
        (("1",), {}, r"number should be .*int.*, not '1'$"),
        ((True,), {}, r"number should be .*int.*, not True$"),
        (("x" * 100,), {}, r"number should be .*int.*, not '(x){59}\.\.\.$"),
        ((1,), {"whatever": object()}, "whatever cannot be JSON: "),
        ((1,), {"share": math.nan}, "share cannot be JSON: "),
    ],
)
def test_what_does_not_fit_is_not_put(app: App, queue: str, args: Any, kwargs: Any, said: str) -> None:
    @app.task(queue=queue)
    def task(number: int, whatever: Any = None, *, share: float = 1) -> None: ...

    with pytest.raises(TypeError, match=said) as caught:
        task.put(*args, **kwargs)
    assert "\n" not in str(caught.value)


def test_what_does_not_fit_within_an_argument_is_named(app: App, queue: str) -> None:
    @app.task(queue=queue)
    def task(order: Order, places: list[Place]) -> None: ...

    with pytest.raises(ValueError, match=r"^order\.placed: Field required$"):
        task.arguments.decode({"order": {"number": 1}, "places": []})
    with pytest.raises(ValueError, match=r"^order\.number should be .*, not 'x' \(and 1 more\)$"):
        task.arguments.decode({"order": {"number": "x"}, "places": []})
    order = {"number": 1, "placed": "2026-01-01T00:00:00Z"}
    with pytest.raises(ValueError, match=r"^places\.1\.city should be a valid string, not 7$"):
        task.arguments.decode({"order": order, "places": [{"city": "Ulm"}, {"city": 7}]})


@pytest.mark.parametrize("library", ["cronsim", "pydantic"])
def test_what_tasks_need_is_said(library: str) -> None:
    program = f"import sys; sys.modules[{library!r}] = None; import telesto.tasks"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.stderr.endswith("ImportError: tasks need: pip install 'telesto-mq[tasks]'\n")


def _declare(app: App, queue: str, **options: Any) -> None:
    @app.task(**{"queue": queue, "name": "again", **options})
    def task(number: int, other: list[int]) -> None: ...


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "known"}, "two tasks 'known'"),
        ({"dedup_key": "nothing"}, "'nothing', which is none"),
        ({"max_attempts": 7}, "another task wants max_attempts=3"),
        ({"transaction": True}, "all tasks have a transaction, or none"),
        ({"max_attempts": 0}, "max_attempts must be 1 to"),
        ({"timeout": -1}, "timeout must be 0 or more"),
    ],
)
def test_contradictions_are_refused(app: App, queue: str, options: Any, said: str) -> None:
    _declare(app, queue, name="known", max_attempts=3)
    with pytest.raises((ValueError, InvalidParameterError), match=said):
        _declare(app, queue, **options)
    assert list(app.tasks) == ["known"]


def test_functions_that_cannot_be_tasks_are_refused(app: App, queue: str, url: str) -> None:
    def star(*numbers: int) -> None: ...

    def generator() -> Any:
        yield 1

    for function in (star, generator):
        with pytest.raises(TypeError):
            app.task(queue=queue)(function)
    for misplaced in (print, "orders"):
        with pytest.raises(TypeError, match=r"write @app.task\(queue=...\)"):
            app.task(misplaced)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="needs App"):
        App(url).task(queue=queue, transaction=True)(print)
    with pytest.raises(ValueError, match="has no tasks"):
        Worker(app)
    _declare(app, queue, dedup_key="other")
    with pytest.raises(ValueError, match="no task has the queue 'x'"):
        Worker(app, queues=["x"])
    with pytest.raises(TypeError, match="no setting 'max_attempt'; did you mean max_attempts"):
        _declare(app, queue, name="third", max_attempt=3)
    with pytest.raises(TypeError, match="other is a key"):
        app.tasks["again"].put(1, [2])


async def test_messages_that_no_task_can_take_are_rejected(
    app: App, queue: str, client: TelestoClient, letters: Callable[[], list[str]]
) -> None:
    @app.task(queue=queue, max_attempts=1_000)
    def known(number: int) -> None: ...

    handle = client.declare_queue(queue, max_attempts=1_000)
    handle.put_many(
        [
            NewMessage({"number": 1}, headers={"task": "forgotten"}),
            NewMessage({"number": 1}),
            NewMessage({"number": "x"}, headers={"task": "known"}),
            NewMessage({"numbers": 1}, headers={"task": "known"}),
            NewMessage([1], headers={"task": "known"}),
            NewMessage(b"\xff", headers={"task": "known"}),
        ]
    )
    told: list[Any] = []
    async with working(app, concurrency=1, observer=lambda *what: told.append(what[:2])):
        await until(lambda: len(letters()) == 6)
    starts = [
        "there is no task 'forgotten'",
        "the message has no header 'task'",
        "the arguments do not fit task 'known': number should be a valid integer",
        "the arguments do not fit task 'known': missing a required argument: 'number'",
        "the arguments do not fit task 'known': the body is no JSON object",
        "the arguments do not fit task 'known': the body of message",
    ]
    for reason, start in zip(letters(), starts, strict=True):
        assert reason.startswith(f"rejected: {start}")
    assert told == [("unknown", "rejected")] * 6


async def test_a_failure_comes_again_up_to_max_attempts(
    app: App, queue: str, letters: Callable[[], list[str]]
) -> None:
    attempts: list[int] = []

    @app.task(queue=queue, max_attempts=3, backoff=0)
    def failing() -> None:
        attempts.append(current_message().attempt)
        raise ValueError("no")

    failing.put()
    told: list[Any] = []
    async with working(app, observer=lambda *what: told.append(what[:2])):
        await until(letters)
    assert letters() == ["failed: ValueError: no"]
    assert attempts == [1, 2, 3]
    assert told == [("failing", "failed")] * 3


async def test_what_fails_is_logged_with_what_follows(
    app: App, queue: str, letters: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(queue=queue, max_attempts=3, backoff=0.01, backoff_max=0.015)
    def failing() -> None:
        raise ValueError("no")

    @app.task(queue=f"{queue}-other", max_attempts=2, backoff=0)
    def other() -> None:
        raise ValueError("no")

    caplog.set_level(logging.ERROR, "telesto.tasks")
    first, second = failing.put(), other.put()
    async with working(app):
        await until(lambda: letters() and len(caplog.messages) == 5)
    assert sorted(caplog.messages) == sorted(
        [
            f"task failing failed on message {first} of queue {queue}, attempt 1 of 3; it can run again in "
            "0.005 to 0.01 s",
            f"task failing failed on message {first} of queue {queue}, attempt 2 of 3; it can run again in "
            "0.0075 to 0.015 s",
            f"task failing failed on message {first} of queue {queue}, attempt 3 of 3; it is a dead letter "
            "now",
            f"task other failed on message {second} of queue {queue}-other, attempt 1 of 2; it can run again "
            "at once",
            f"task other failed on message {second} of queue {queue}-other, attempt 2 of 2; it is a dead "
            "letter now",
        ]
    )
    assert caplog.records[0].exc_info is not None
    trace = "".join(traceback.format_exception(*caplog.records[0].exc_info))
    assert trace.count("  File ") == 1, trace
    assert 'raise ValueError("no")' in trace


@pytest.mark.parametrize("is_coroutine", [True, False])
@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
async def test_what_would_end_the_process_is_a_failure(
    app: App, queue: str, letters: Callable[[], list[str]], is_coroutine: bool, raised: Any
) -> None:
    done: list[int] = []

    def act(kind: str) -> None:
        if kind == "bad":
            raise raised
        done.append(1)

    async def coroutine(kind: str) -> None:
        act(kind)

    task = app.task(queue=queue, name="task", max_attempts=1)(coroutine if is_coroutine else act)
    task.put(kind="bad")
    task.put(kind="good")
    told: list[Any] = []
    async with working(app, concurrency=1, observer=lambda *what: told.append(what[1])):
        await until(lambda: letters() and done)
    kind = raised.__name__
    shown = kind if kind == "CancelledError" else f"RuntimeError: the task raised {kind}"
    assert letters() == [f"failed: {shown}"]
    assert told == ["failed", "done"]


async def test_a_coroutine_that_takes_too_long_is_cancelled_and_fails(
    app: App, queue: str, letters: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []

    @app.task(queue=queue, timeout=timedelta(seconds=0.05), max_attempts=1)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    @app.failed
    def failed(task: Any, message: Message, error: BaseException) -> None:
        assert isinstance(error, TaskTimeoutError)
        ended.append(str(error))

    slow.put()
    async with working(app):
        await until(letters)
    assert ended == ["cancelled", "it ran longer than 0.05 s"]
    assert letters() == ["failed: TaskTimeoutError: it ran longer than 0.05 s"]
    assert caplog.records[-1].exc_info is not None
    trace = "".join(traceback.format_exception(*caplog.records[-1].exc_info))
    assert "asyncio.Event().wait()" in trace
    assert "CancelledError" not in trace


async def test_a_timeout_of_the_tasks_own_is_what_it_is(app: App, queue: str) -> None:
    seen: list[BaseException] = []

    @app.task(queue=queue, timeout=60, max_attempts=1)
    async def own() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    @app.failed
    def failed(task: Any, message: Message, error: BaseException) -> None:
        seen.append(error)

    own.put()
    async with working(app):
        await until(lambda: seen)
    assert type(seen[0]) is TimeoutError


async def test_a_function_that_takes_too_long_ends_its_worker(
    app: App, queue: str, client: TelestoClient, caplog: pytest.LogCaptureFixture
) -> None:
    release, others = threading.Event(), []

    @app.task(queue=queue, timeout=0.05)
    def hanging() -> None:
        release.wait(PATIENCE_S)

    @app.task(queue=queue)
    async def other() -> None:
        others.append(1)

    hanging.put()
    worker = Worker(app, drain=2 * PATIENCE_S)  # which is for others: there are none
    with pytest.raises(TaskTimeoutError, match=r"'hanging' runs longer than 0\.05 s"):
        await asyncio.wait_for(worker.run(), PATIENCE_S)
    told = next(message for message in caplog.messages if "so this process ends" in message)
    assert "release.wait(PATIENCE_S)" in told
    assert "worker.py" not in told
    # It comes again, and begins nothing more until then.
    other.put()
    assert others == []
    assert client.queue(queue).statistics().depth == 2
    release.set()


@pytest.mark.parametrize("transaction", [False, True])
async def test_a_function_that_ends_after_its_time_has_failed(
    app: App, queue: str, letters: Callable[[], list[str]], transaction: bool
) -> None:
    release = threading.Event()
    ended: list[str] = []
    outcomes: list[tuple[str, str]] = []

    def late(connection: object = None) -> None:
        release.wait(PATIENCE_S)

    async def other(connection: object = None) -> None:
        await asyncio.sleep(0.5)
        release.set()
        await asyncio.sleep(0.2)

    late_task = app.task(queue=queue, timeout=0.2, max_attempts=1, transaction=transaction)(late)
    other_task = app.task(queue=queue, transaction=transaction)(other)

    @app.after
    def after(task: Any, message: Message) -> None:
        ended.append(f"{task.name} is done")

    @app.failed
    async def failed(task: Any, message: Message, error: BaseException) -> None:
        ended.append(type(error).__name__)

    other_task.put()
    late_task.put()
    worker = Worker(app, drain=PATIENCE_S, observer=lambda task, outcome, _: outcomes.append((task, outcome)))
    with pytest.raises(TaskTimeoutError):
        await asyncio.wait_for(worker.run(), PATIENCE_S)
    assert outcomes == [("late", "failed"), ("other", "done")]
    assert ended == ["TaskTimeoutError", "other is done"]
    assert letters() == ["failed: TaskTimeoutError: it ran longer than 0.2 s"]


async def test_hooks_see_what_becomes_of_a_task(
    app: App, queue: str, letters: Callable[[], list[str]]
) -> None:
    seen: list[str] = []

    @app.before
    async def before(task: Any, message: Message) -> None:
        seen.append(f"before {task.name}")
        if task.name == "refused":
            raise MessageRejectedError("not today")

    @app.after
    def after(task: Any, message: Message) -> None:
        seen.append(f"after {task.name}")
        raise ValueError("a hook that fails changes nothing")

    @app.failed
    def failed(task: Any, message: Message, error: BaseException) -> None:
        seen.append(f"failed {task.name} {type(error).__name__}")
        raise ValueError("neither does this")

    @app.task(queue=queue, max_attempts=1)
    def good() -> None: ...

    @app.task(queue=queue)
    def bad() -> None:
        raise KeyError("price")

    @app.task(queue=queue)
    def refused() -> None: ...

    for task in (good, bad, refused):
        task.put()
    async with working(app, concurrency=1):
        await until(lambda: len(letters()) == 2)
    assert letters() == ["failed: KeyError: 'price'", "rejected: not today"]
    assert seen == [
        "before good",
        "after good",
        "before bad",
        "failed bad KeyError",
        "before refused",
        "failed refused MessageRejectedError",
    ]


async def test_keys_are_arguments(app: App, queue: str, client: TelestoClient) -> None:
    ran: list[tuple[str, int]] = []

    @app.task(queue=queue, dedup_key="number", partition_key="customer", dedup_window=60)
    async def ordered(number: int, customer: str = "x") -> None:
        await asyncio.sleep(0)
        ran.append((customer, number))

    @app.task(queue=queue, dedup_key="number")
    def other(number: int) -> None: ...

    first = ordered.put(1)
    assert ordered.put(1) == first
    assert other.put(1) != first
    results = ordered.put_many(ordered.message(number, customer="y") for number in range(2, 20))
    assert all(result.error is None for result in results)
    assert client.queue(queue).statistics().keyed == 17
    async with working(app):
        await until(lambda: len(ran) == 19)
    assert [number for customer, number in ran if customer == "y"] == list(range(2, 20))


def test_options_say_when(app: App, queue: str, client: TelestoClient) -> None:
    @app.task(queue=queue)
    def task() -> None: ...

    task.options(delay=3600).put()
    task.options(at=datetime.now(UTC) + timedelta(hours=1), priority=9).put()
    task.put()
    statistics = client.queue(queue).statistics()
    assert (statistics.depth, statistics.delayed) == (3, 2)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"later": 3}, TypeError),
        ({"delay": "soon"}, TypeError),
        ({"at": "tomorrow"}, TypeError),
        ({"headers": {"tenant": 7}}, TypeError),
        ({"priority": 11}, InvalidParameterError),
        ({"delay": 5, "at": datetime.now(UTC)}, InvalidParameterError),
    ],
)
def test_options_that_no_put_takes_are_refused_at_once(
    app: App, options: Any, error: type[Exception]
) -> None:
    @app.task()
    def task() -> None: ...

    with pytest.raises(error):
        task.options(**options)


async def test_settings_of_a_queue_that_differ_are_told_or_changed(
    app: App, queue: str, client: TelestoClient
) -> None:
    @app.task(queue=queue, max_attempts=7)
    def task() -> None: ...

    handle = client.create_queue(queue)
    with pytest.raises(QueueSettingsDifferError, match="max_attempts"):
        await Worker(app).run()
    async with working(app, update_queues=True):
        await until(lambda: handle.settings().max_attempts == 7)


async def test_a_deleted_queue_ends_the_worker(app: App, queue: str, client: TelestoClient) -> None:
    began = threading.Event()

    @app.task(queue=queue)
    def task() -> None:
        began.set()

    task.put()
    worker = Worker(app)
    running = asyncio.create_task(worker.run())
    await until(began.is_set)
    client.queue(queue).delete()
    with pytest.raises(Exception, match="queue"):
        await asyncio.wait_for(running, PATIENCE_S)


async def test_what_does_not_end_in_time_goes_back_and_that_is_logged(
    app: App, queue: str, client: TelestoClient, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    @app.task(queue=queue)
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    endless.put()
    told: list[Any] = []
    async with working(app, drain=0, observer=lambda *what: told.append(what[:2])):
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
    assert told == [("endless", "cancelled")]
    assert f"of queue {queue} has not ended in time: the message goes back" in caplog.text
    assert client.queue(queue).statistics().depth == 1
