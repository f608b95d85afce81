"""Runs tasks for the messages of their queues."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable
from contextlib import AsyncExitStack, ExitStack, suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from telesto.client import (
    AsyncQueue,
    AsyncTelestoClient,
    AuthenticationFailedError,
    ClientClosedError,
    ClientNotExistingError,
    ClientOptions,
    DeadlineExceededError,
    Duration,
    ErrorClass,
    LoginsPausedError,
    Message,
    MessageRejectedError,
    NotConnectedError,
    PermissionDeniedError,
    QueueSettings,
    TelestoError,
)
from telesto.tasks.app import MESSAGE, TASK, App, Task, put_arguments
from telesto.tasks.periodic import GRACE, Schedule

ACK = "SELECT telesto.ack(%s, %s, %s)"
_log = logging.getLogger("telesto.tasks")
#: The worker itself tries to connect again, so that it can say at once that it waits.
_OPTIONS = ClientOptions(connect_tries=1)
#: The pause after an attempt to connect, or to put a tick, that failed, in seconds.
_AGAIN_S = 1.0
#: The longest pause after a login that failed, or while a right is missing, in seconds. Pauses double.
_DENIED_MOST_S = 60.0
#: What goes on for so long, in seconds, is taken to be allowed again.
_SETTLED_S = 2.0
#: The longest sleep between two looks at the clock, which may be set, in seconds.
_LOOK_S = 30.0

#: Is told of a message: its task, how it ended (done, failed, rejected, cancelled), after how many seconds.
Observer = Callable[[str, str, float], None]


class TaskTimeoutError(TimeoutError):
    """A task ran longer than its ``timeout``.

    A coroutine has been cancelled. A plain function, whose thread cannot be ended, has failed whatever it
    does from then on; its message goes back when it returns or when its process ends.
    """


class _Denied:
    """Tells once that a user may not do something, and how long to wait before it is tried again.

    A right may come back, and a password may be changed in the file that it is read from.
    """

    def __init__(self, what: str) -> None:
        """``what`` cannot be done meanwhile."""
        self._what = what
        self._pause = _AGAIN_S
        #: It has not been allowed again.
        self.lasts = False

    def pause(self, error: TelestoError) -> float:
        """Takes a failure; returns how long to wait, in seconds."""
        if not self.lasts:
            self.lasts = True
            why = error.details.removesuffix("; connect() tries again")
            _log.error("%s: %s. Tried again after pauses of up to %g s", self._what, why, _DENIED_MOST_S)
        pause, self._pause = self._pause, min(2 * self._pause, _DENIED_MOST_S)
        return max(pause, error.retry_after or 0.0)

    def over(self) -> None:
        """It works."""
        if self.lasts:
            _log.info("it works again: %s", self._what)
        self.lasts, self._pause = False, _AGAIN_S


class Worker:
    """Runs the tasks of an application, until it is stopped.

    Attributes:
        app: the application.
        queues: the names of the queues that it works on.
        working: set once it consumes them.
    """

    def __init__(
        self,
        app: App,
        *,
        concurrency: int = 8,
        queues: Collection[str] | None = None,
        drain: Duration = 20.0,
        update_queues: bool = False,
        observer: Observer = lambda task, outcome, seconds: None,
    ) -> None:
        """Makes a worker.

        Args:
            app: the application.
            concurrency: how many messages of each queue are worked on at a time, coroutines in the event loop
                and plain functions each in a thread.
            queues: only these queues of its tasks.
            drain: how long tasks under way may take when it ends, in seconds.
            update_queues: change settings of queues that differ from what tasks ask for; else that is an
                error.
            observer: is told of each message, in the event loop.

        Raises ValueError when no task has one of the queues.
        """
        known = {task.queue for task in app.tasks.values()}
        self.app = app
        self.queues = sorted(known if queues is None else queues)
        if unknown := [queue for queue in self.queues if queue not in known]:
            raise ValueError(f"no task has the queue {unknown[0]!r}; they have {', '.join(sorted(known))}")
        if not self.queues:
            raise ValueError("the application has no tasks")
        self._concurrency = concurrency
        self._drain = drain
        self._update = update_queues
        self._observer = observer
        self._client: AsyncTelestoClient | None = None
        self._stopping = asyncio.Event()
        self.working = asyncio.Event()
        self._closing: list[asyncio.Task[None]] = []
        self._logging_in = asyncio.Lock()
        self._login = _Denied("logging in")
        self._overdue: TaskTimeoutError | None = None
        self._running = self._running_overdue = 0
        self._pools: dict[bool, Any] = {}

    async def run(self, *, stop_signals: Iterable[signal.Signals] = ()) -> None:
        """Works until ``stop`` or one of the signals; a second signal cancels what is under way.

        It waits for a service that is away, and says so in the log. Once it has logged in, so it does while
        its user is disabled, has another password, or has lost the right to a queue, which others it goes on
        with. Raises AuthenticationFailedError and PermissionDeniedError when it cannot begin,
        QueueSettingsDifferError when a
        queue has other settings than tasks ask for, PoolTimeout of psycopg_pool when a ``database`` cannot be
        reached, TaskTimeoutError when a function runs for too long: then its thread runs on until the process
        ends, so end it at once.
        """
        loop = asyncio.get_running_loop()
        signals = list(stop_signals)
        for number in signals:
            loop.add_signal_handler(number, self._signalled)
        try:
            async with AsyncExitStack() as stack:
                self._client = client = AsyncTelestoClient(self.app.url, options=_OPTIONS)
                await stack.enter_async_context(client)
                queues = await self._declare_queues(client)
                if queues:
                    await self._open_pools(stack)
                await self._work(client, queues)
            await asyncio.gather(*self._closing)
        except ClientClosedError:
            if not self._stopping.is_set():
                raise
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
        if self._overdue is not None:
            raise self._overdue

    def stop(self, drain: Duration | None = None) -> None:
        """Begins nothing more and ends when what is under way has ended, within ``drain`` seconds.

        Again with ``drain``, it shortens the time.
        """
        self._stopping.set()
        if self._client is not None:
            closing = self._client.close(drain=self._drain if drain is None else drain)
            self._closing.append(asyncio.create_task(closing))

    def _signalled(self) -> None:
        self.stop(0 if self._stopping.is_set() else None)

    async def _work(self, client: AsyncTelestoClient, queues: dict[AsyncQueue, QueueSettings]) -> None:
        ticking = [
            asyncio.create_task(_tick(task, schedule, queue, settings))
            for task, schedule in self.app.periodic_tasks
            for queue, settings in queues.items()
            if queue.name == task.queue
        ]
        consuming = [asyncio.create_task(self._consume(client, *each)) for each in queues.items()]
        around = [*ticking, asyncio.create_task(self._tell_of_outages(client))]
        if queues:
            self.working.set()
            _log.info("working on %s", ", ".join(self.queues))
        try:
            await asyncio.gather(*consuming)
        finally:
            for task in around:
                task.cancel()
            if not self._stopping.is_set():  # one has failed: the others have time to end
                await client.close()
            await asyncio.gather(*consuming, *around, return_exceptions=True)

    async def _declare_queues(self, client: AsyncTelestoClient) -> dict[AsyncQueue, QueueSettings]:
        """Connects, however long that takes; returns the queues and their settings, none when stopped."""
        told = False
        while not self._stopping.is_set():
            try:
                await client.connect()
                queues = [
                    await client.declare_queue(name, update=self._update, **self.app.settings.get(name, {}))
                    for name in self.queues
                ]
                return {queue: await queue.settings() for queue in queues}
            except (NotConnectedError, DeadlineExceededError) as error:
                if isinstance(error, ClientClosedError) or error.error_class is not ErrorClass.RETRYABLE:
                    raise
                if isinstance(error, LoginsPausedError):
                    await self._pause(self._login.pause(error))
                    continue
                if not told:
                    _log.warning("the service is away, waiting for it: %s", error.details)
                told = True
                await self._pause(_AGAIN_S)
        return {}

    async def _pause(self, seconds: float) -> None:
        """Waits, unless the worker is stopped."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _consume(self, client: AsyncTelestoClient, queue: AsyncQueue, settings: QueueSettings) -> None:
        """Consumes a queue, also after the user was not allowed to for a while."""
        in_database = any(t.transaction for t in self.app.tasks.values() if t.queue == queue.name)
        denied = _Denied(f"consuming queue {queue.name}")
        while True:
            settled = asyncio.get_running_loop().call_later(_SETTLED_S, denied.over)
            try:
                await queue.run_consumer(
                    partial(self._handle, queue.name),
                    concurrency=self._concurrency,
                    ack_in_database=in_database,
                    on_error=partial(_log_failure, queue.name, settings),
                    drain=self._drain,
                )
                return
            except PermissionDeniedError as error:
                settled.cancel()
                await self._pause(denied.pause(error))
            except AuthenticationFailedError as error:
                settled.cancel()
                await self._log_in_again(client, error)
            finally:
                settled.cancel()
            if self._stopping.is_set():
                return

    async def _log_in_again(self, client: AsyncTelestoClient, error: TelestoError) -> None:
        """Connects once the user may log in again, for all queues, unless the worker is stopped meanwhile."""
        async with self._logging_in:
            while not self._stopping.is_set() and not client.connected:
                await self._pause(self._login.pause(error))
                try:
                    await client.connect()
                except ClientClosedError:
                    return
                except (AuthenticationFailedError, LoginsPausedError) as again:
                    error = again
                except (ClientNotExistingError, NotConnectedError, DeadlineExceededError) as other:
                    # A temporary client that was deleted meanwhile is made anew by the next attempt.
                    _log.debug("connecting again: %s", other.details)
                else:
                    self._login.over()

    async def _tell_of_outages(self, client: AsyncTelestoClient) -> None:
        """Says when the service goes away, and when it is there again."""
        away = False
        while True:
            await asyncio.sleep(_AGAIN_S)
            if client.connected is away and (away or not self._login.lasts):
                away = not away
                if away:
                    _log.warning("the service is away, waiting for it; what runs goes on, and may run again")
                else:
                    _log.info("the service is there again")

    # ------------------------------------------------------------------ one message

    async def _handle(self, queue: str, message: Message) -> None:
        begun = time.monotonic()
        self._running += 1
        name, outcome = "unknown", "failed"
        MESSAGE.set(message)
        try:
            task, arguments = _read(self.app, message)
            name = task.name
            try:
                for hook in self.app.before_hooks:
                    await _awaited(hook(task, message))
                await self._call(task, message, arguments)
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                    raise
                await _call_hooks(self.app.failed_hooks, task, message, error)
                if isinstance(error, (Exception, asyncio.CancelledError)):
                    raise
                # Such as SystemExit, which would end the event loop and all other tasks.
                raise RuntimeError(f"the task raised {type(error).__name__}") from error
            outcome = "done"
            await _call_hooks(self.app.after_hooks, task, message)
        except MessageRejectedError:
            outcome = "rejected"
            raise
        except asyncio.CancelledError:
            if _is_cancelled():
                outcome = "cancelled"
                _log.warning(
                    "task %s on message %s of queue %s has not ended in time: the message goes back",
                    name,
                    message.message_id,
                    queue,
                )
            raise
        finally:
            self._running -= 1
            self._end_if_all_are_overdue()
            self._observer(name, outcome, time.monotonic() - begun)

    async def _call(self, task: Task[..., Any], message: Message, arguments: dict[str, Any]) -> None:
        if not inspect.iscoroutinefunction(task.function):
            await self._call_in_thread(task, partial(self._call_plain, task, message, arguments))
            return
        try:
            async with asyncio.timeout(task.timeout) as limit:
                if not task.transaction:
                    await task.function(**arguments)
                    return
                async with self._pools[True].connection() as connection, connection.transaction():
                    await connection.execute(ACK, message.lease)
                    await task.function(connection, **arguments)
        except TimeoutError as error:
            if not limit.expired():
                raise
            where = error.__cause__.__traceback__ if error.__cause__ is not None else None
            raise _timeout_of(task).with_traceback(where) from None

    def _call_plain(self, task: Task[..., Any], message: Message, arguments: dict[str, Any]) -> None:
        begun = time.monotonic()
        with ExitStack() as stack:
            given = []
            if task.transaction:
                connection = stack.enter_context(self._pools[False].connection())
                stack.enter_context(connection.transaction())
                connection.execute(ACK, message.lease)
                given.append(connection)
            task.function(*given, **arguments)
            if task.timeout is not None and time.monotonic() - begun > task.timeout:
                raise _timeout_of(task)

    async def _call_in_thread(self, task: Task[..., Any], call: Callable[[], None]) -> None:
        """Calls a function in a thread, which does not keep the process from ending."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[BaseException | None] = loop.create_future()

        def end(error: BaseException | None) -> None:
            if not ended.done():
                ended.set_result(error)

        def run() -> None:
            error: BaseException | None = None
            try:
                call()
            except BaseException as raised:  # noqa: BLE001 - the message is told
                error = raised
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(end, error)

        thread = threading.Thread(
            target=copy_context().run, args=(run,), name=f"task {task.name}", daemon=True
        )
        thread.start()
        done, _ = await asyncio.wait([ended], timeout=task.timeout)
        if not done:
            await self._wait_overdue(task, thread, ended)
        error = await ended
        if error is not None:
            raise error

    async def _wait_overdue(
        self, task: Task[..., Any], thread: threading.Thread, ended: asyncio.Future[BaseException | None]
    ) -> None:
        """Ends the worker and waits for the function, so that no other worker has the message meanwhile.

        Raises TaskTimeoutError when the worker ends first.
        """
        self._overdue = TaskTimeoutError(f"task {task.name!r} runs longer than {task.timeout:g} s")
        _log.error("%s, so this process ends; it is here:\n%s", self._overdue, stack_of(thread))
        self._running_overdue += 1
        self.stop()
        self._end_if_all_are_overdue()
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError:
            raise _timeout_of(task) from None  # which counts
        finally:
            self._running_overdue -= 1

    def _end_if_all_are_overdue(self) -> None:
        """Ends at once when nothing runs that has a time to end."""
        if self._running == self._running_overdue > 0:
            self.stop(0)

    async def _open_pools(self, stack: AsyncExitStack) -> None:
        """Opens connections to the database for tasks that run in a transaction.

        Raises PoolTimeout when there is none: better now than at the cost of messages' attempts.
        """
        tasks = [task for task in self.app.tasks.values() if task.transaction and task.queue in self.queues]
        for is_coroutine in {inspect.iscoroutinefunction(task.function) for task in tasks}:
            import psycopg_pool

            assert self.app.database is not None
            options: dict[str, Any] = {
                "kwargs": {"autocommit": True},
                "min_size": 1,
                "max_size": self._concurrency * len(self.queues),
                "open": False,
            }
            if is_coroutine:
                pool = psycopg_pool.AsyncConnectionPool(self.app.database, **options)
                self._pools[True] = await stack.enter_async_context(pool)
                await pool.wait()
            else:
                plain = psycopg_pool.ConnectionPool(self.app.database, **options)
                self._pools[False] = stack.enter_context(plain)
                await asyncio.to_thread(plain.wait)


def _read(app: App, message: Message) -> tuple[Task[..., Any], dict[str, Any]]:
    """Returns the task and the arguments of a message. Raises MessageRejectedError when there is none."""
    name = message.headers.get(TASK)
    if name is None:
        raise MessageRejectedError(f"the message has no header {TASK!r}: it was not put by a task")
    task = app.tasks.get(name)
    if task is None:
        raise MessageRejectedError(f"there is no task {name!r}")
    try:
        return task, task.arguments.decode(message.json())
    except ValueError as error:
        raise MessageRejectedError(f"the arguments do not fit task {name!r}: {error}") from error


async def _tick(task: Task[[], Any], schedule: Schedule, queue: AsyncQueue, settings: QueueSettings) -> None:
    """Puts a periodic task at its times; other workers do the same, with the same keys."""
    grace = timedelta(seconds=min(GRACE, settings.dedup_window / 2))  # beyond its window a key would not hold
    done = datetime.now(UTC) - grace
    denied = _Denied(f"putting the ticks of task {task.name}")
    while True:
        now = datetime.now(UTC)
        tick = schedule.latest(max(done, now - grace), now)
        if tick is None:
            wait = (schedule.next(now) - now).total_seconds()
            await asyncio.sleep(min(wait, _LOOK_S))
            continue
        moment = tick.isoformat()
        try:
            message = task.message()
            message.dedup_key = f"{task.name}@{moment}"
            message.headers = {**(message.headers or {}), "tick": moment}
            await queue.put(**put_arguments(message))
        except ClientClosedError:
            return
        except (PermissionDeniedError, AuthenticationFailedError) as error:
            await asyncio.sleep(denied.pause(error))
        except Exception as error:  # noqa: BLE001 - whatever it is must be told
            _log.warning("the tick %s of task %s is not put yet: %r", moment, task.name, error)
            await asyncio.sleep(_AGAIN_S)
        else:
            done = tick
            denied.over()


async def _call_hooks(hooks: Iterable[Callable[..., Any]], *what: Any) -> None:
    """Calls hooks that cannot change the outcome any more."""
    for hook in hooks:
        try:
            await _awaited(hook(*what))
        except Exception:  # noqa: BLE001 - the task is done, or has failed, whatever it is
            _log.exception("a hook failed on message %s", MESSAGE.get().message_id)


async def _awaited(result: Any) -> None:
    if inspect.isawaitable(result):
        await result


def _timeout_of(task: Task[..., Any]) -> TaskTimeoutError:
    return TaskTimeoutError(f"it ran longer than {task.timeout:g} s")


def _is_cancelled() -> bool:
    """Tells whether the worker cancels this message, which then counts as no attempt."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def stack_of(thread: threading.Thread) -> str:
    """Returns where a thread is, without what has called the task."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - there is no other way to see it
    frames = traceback.extract_stack(frame) if frame is not None else []
    callers = [number for number, each in enumerate(frames) if each.filename == __file__]
    return "".join(traceback.format_list(frames[max(callers, default=-1) + 1 :])).rstrip()


def _log_failure(queue: str, settings: QueueSettings, message: Message, error: BaseException) -> None:
    """Says what has failed and, by the settings that the queue had when the worker began, what follows."""
    which = f"message {message.message_id} of queue {queue}"
    if isinstance(error, MessageRejectedError):
        _log.error("%s is rejected and is a dead letter now: %s", which, error)
        return
    wait_s = min(settings.backoff * 2 ** min(message.attempt - 1, 40), settings.backoff_max)
    if message.attempt >= settings.max_attempts:
        follows = "it is a dead letter now"
    else:
        when = f"in {wait_s / 2:g} to {wait_s:g} s" if wait_s else "at once"
        follows = f"it can run again {when}"
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("telesto."):
        trace = trace.tb_next  # the frames of the task are of interest
    _log.error(
        "task %s failed on %s, attempt %d of %d; %s",
        message.headers.get(TASK),
        which,
        message.attempt,
        settings.max_attempts,
        follows,
        exc_info=(type(error), error, trace),
    )
