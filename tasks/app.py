"""An application's tasks: how they are declared and put."""

from __future__ import annotations

import asyncio
import atexit
import copy
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime, tzinfo
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, Unpack, overload
from zoneinfo import ZoneInfo

from telesto.client import (
    AuthenticationFailedError,
    Duration,
    Message,
    NewMessage,
    PutResult,
    QueueNotExistingError,
    QueueSettingChanges,
    TelestoClient,
)
from telesto.client.arguments import check_timeout, queued_message
from telesto.client.queue_settings import QueueSettings
from telesto.tasks.arguments import Arguments
from telesto.tasks.periodic import Schedule

P = ParamSpec("P")
R = TypeVar("R")
#: The header that names a message's task.
TASK = "task"
#: The applications whose client is open.
_OPEN: set[App] = set()
#: The message that a handler works on.
MESSAGE: ContextVar[Message] = ContextVar("telesto.tasks.message")


class Task(Generic[P, R]):
    """A function that workers run for messages. ``App.task`` makes it; calling it calls the function.

    Attributes:
        name: its name, which messages carry in the header ``task``.
        queue: the name of its queue.
        function: the function.
        timeout: how long it may run, in seconds; None for any time.
        transaction: it runs in a transaction of the database, with ``telesto.ack``.
        put_options: how its messages are put.
        arguments: what its function may be called with.
    """

    def __init__(
        self,
        app: App,
        function: Callable[..., Any],
        name: str,
        queue: str,
        timeout: float | None,
        keys: Mapping[str, str | None],
        transaction: bool,
    ) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"task {name!r} is a generator: it would not run")
        self._app = app
        self.function = function
        self.name = name
        self.queue = queue
        self.timeout = timeout
        self.transaction = transaction
        self._keys = keys
        self.put_options: dict[str, Any] = {}
        self.arguments = Arguments(name, function, 1 if transaction else 0)
        for key, argument in keys.items():
            if argument is not None and argument not in self.arguments:
                raise ValueError(f"task {name!r}: {key} names {argument!r}, which is none of its arguments")

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of queue {self.queue!r}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function here and now; the one of a ``transaction`` is called as ``function``."""
        if self.transaction:
            raise TypeError(f"task {self.name!r} needs a connection: {self.name}.function(connection, ...)")
        result: R = self.function(*args, **kwargs)
        return result

    def options(
        self,
        *,
        priority: int | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        expires: Duration | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Task[P, R]:
        """Returns the task as it is put with other options: ``task.options(delay=60).put(order_id=7)``.

        The options are those of a queue's ``put``; one that is not given, or None, stays as it is.
        Raises TypeError and InvalidParameterError for one that ``put`` does not take.
        """
        given = {"priority": priority, "delay": delay, "at": at, "expires": expires, "headers": headers}
        changed = copy.copy(self)
        changed.put_options = {
            **self.put_options,
            **{name: value for name, value in given.items() if value is not None},
        }
        queued_message(1, NewMessage(b"", **changed.put_options))
        return changed

    def message(self, *args: P.args, **kwargs: P.kwargs) -> NewMessage:
        """Returns the message that has a worker call the function so. Raises TypeError for wrong ones."""
        encoded = self.arguments.encode(args, kwargs)
        options: dict[str, Any] = {**self.put_options}
        for key, name in self._keys.items():
            if name is not None:
                options[key] = self.arguments.key(name, encoded)
        if "dedup_key" in options:  # the tasks of a queue have one window
            options["dedup_key"] = f"{self.name}:{options['dedup_key']}"
        options["headers"] = {**(options.get("headers") or {}), TASK: self.name}
        return NewMessage(encoded, **options)

    def put(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Puts a message that has a worker call the function so; returns its id once it is durable.

        The queue is created, with the settings of its tasks, if there is none. Raises TypeError for arguments
        that do not fit, and what ``put`` of a queue raises.
        """
        message = self.message(*args, **kwargs)
        message_id: int = self._app.put(self.queue, lambda queue: queue.put(**put_arguments(message)))
        return message_id

    async def put_async(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Does the same as ``put``, for coroutines; a thread of its own waits."""
        return await asyncio.to_thread(self.put, *args, **kwargs)

    def put_many(self, messages: Iterable[NewMessage]) -> list[PutResult]:
        """Puts messages that ``message`` makes; returns a result for each, see ``put_many`` of a queue."""
        return self._app.put(self.queue, lambda queue: queue.put_many(messages))


def put_arguments(message: NewMessage) -> dict[str, Any]:
    """Returns a message as the arguments of a queue's ``put``."""
    names = ("body", "priority", "dedup_key", "delay", "expires", "partition_key", "headers", "at")
    return {name: getattr(message, name) for name in names}


Hook = Callable[[Task[..., Any], Message], Awaitable[None] | None]
FailedHook = Callable[[Task[..., Any], Message, BaseException], Awaitable[None] | None]
HookT = TypeVar("HookT", bound=Hook)
FailedHookT = TypeVar("FailedHookT", bound=FailedHook)


class TaskOptions(QueueSettingChanges, total=False):
    """What ``App.task`` is told, see there."""

    queue: str
    name: str | None
    timeout: Duration | None
    dedup_key: str | None
    partition_key: str | None


class App:
    """The tasks of an application, and the client by which they are put.

    Attributes:
        url: where the service is; None for the environment's TELESTO_URL.
        database: the address of the service's database, for tasks with ``transaction``; a user who has the
            role ``telesto_application``.
        tasks: the tasks by their names.
        periodic_tasks: the periodic ones, and when each is due.
        settings: the settings of each queue that tasks ask for, by the queue's name.
    """

    def __init__(
        self, url: str | None = None, *, name: str | None = None, database: str | None = None
    ) -> None:
        """Makes an application; it connects when the first task is put.

        Args:
            url: the service, see TelestoClient.
            name: the name of the client that puts, see TelestoClient, with ``{pid}`` where several processes
                do; without it each has a temporary one. Messages under one ``partition_key`` keep their order
                among those of one client.
            database: see above.
        """
        self.url = url
        self.database = database
        self.tasks: dict[str, Task[..., Any]] = {}
        self.periodic_tasks: list[tuple[Task[[], Any], Schedule]] = []
        self.settings: dict[str, QueueSettingChanges] = {}
        self.before_hooks: list[Hook] = []
        self.after_hooks: list[Hook] = []
        self.failed_hooks: list[FailedHook] = []
        self._name = name
        self._client: TelestoClient | None = None
        self._process = 0
        self._lock = threading.Lock()

    # ------------------------------------------------------------------ declaring

    @overload
    def task(
        self, *, transaction: Literal[False] = False, **options: Unpack[TaskOptions]
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    @overload
    def task(
        self, *, transaction: Literal[True], **options: Unpack[TaskOptions]
    ) -> Callable[[Callable[Concatenate[Any, P], R]], Task[P, R]]: ...

    def task(
        self,
        *misplaced: object,
        queue: str = "tasks",
        name: str | None = None,
        timeout: Duration | None = None,
        dedup_key: str | None = None,
        partition_key: str | None = None,
        transaction: bool = False,
        **settings: Unpack[QueueSettingChanges],
    ) -> Callable[[Callable[..., Any]], Task[..., Any]]:
        """Makes a function, or a coroutine function, a task.

        Args:
            queue: the name of its queue, which several tasks may share.
            name: its name; the function's unless given.
            timeout: how long it may run, in seconds. A coroutine is cancelled then, and has failed. A plain
                function cannot be: it has failed whatever it does from then on, its worker process ends, and
                another one begins.
            dedup_key: the name of an argument: within the queue's ``dedup_window`` one message is put for one
                value of it.
            partition_key: the name of an argument: what is put for one value of it is worked on in order, one
                at a time.
            transaction: the function is given a connection of psycopg before its arguments, an
                AsyncConnection if it is a coroutine, and runs in a transaction of it that acknowledges the
                message: what it does there is done exactly once. All tasks of a queue have it, or none.
            settings: settings of the queue, such as ``max_attempts=3``; see QueueSettings.

        Raises ValueError for what contradicts another task, TypeError for a function that cannot be one and
        for a setting that no queue has, InvalidParameterError for a value out of its range.
        """
        if misplaced:  # as by @app.task without parentheses
            raise TypeError("write @app.task(queue=...): it takes no positional arguments")
        seconds = None if timeout is None else check_timeout(timeout)
        QueueSettings(**settings)
        keys = {"dedup_key": dedup_key, "partition_key": partition_key}

        def declare(function: Callable[..., Any]) -> Task[..., Any]:
            called = name or function.__name__
            task: Task[..., Any] = Task(self, function, called, queue, seconds, keys, transaction)
            if called in self.tasks:
                raise ValueError(f"there are two tasks {called!r}; give one of them another name")
            if transaction and self.database is None:
                raise ValueError(f"task {called!r}: a transaction needs App(database=...)")
            if any(other.transaction != transaction for other in self.tasks.values() if other.queue == queue):
                raise ValueError(f"task {called!r}: in queue {queue!r} all tasks have a transaction, or none")
            others: dict[str, Any] = {**self.settings.get(queue, {})}
            for setting, value in settings.items():
                if others.setdefault(setting, value) != value:
                    raise ValueError(f"queue {queue!r}: another task wants {setting}={others[setting]!r}")
            self.settings[queue] = QueueSettingChanges(**others)  # type: ignore[typeddict-item]
            self.tasks[called] = task
            return task

        return declare

    def periodic(
        self, expression: str, *, timezone: str | tzinfo = "UTC"
    ) -> Callable[[Task[[], R]], Task[[], R]]:
        """Has workers put a task at the times that a cron expression tells, each time once.

        Args:
            expression: minute, hour, day, month and day of the week, ``"*/5 * * * *"``; or seconds
                in front of them.
            timezone: its time zone, such as ``"Europe/Berlin"``.

        A time that was missed while no worker ran is made up for within a minute, else not. When the clocks
        are set forward, what falls into the missing hour is due at its end; when they are set back, what is
        due at a certain hour is put once. Raises ValueError for an expression that is none, and TypeError
        for a task that needs an argument.
        """
        zone = ZoneInfo(timezone) if isinstance(timezone, str) else timezone
        schedule = Schedule(expression, zone)

        def declare(task: Task[[], R]) -> Task[[], R]:
            if not isinstance(task, Task):
                raise TypeError("put @app.periodic(...) above @app.task(...), which makes the task")
            try:
                task.message()
            except TypeError as error:
                raise TypeError(f"a periodic task is given no arguments, but {error}") from None
            self.periodic_tasks.append((task, schedule))
            return task

        return declare

    def before(self, hook: HookT) -> HookT:
        """Has a function called with each task and its message before it; if it raises, the task fails."""
        self.before_hooks.append(hook)
        return hook

    def after(self, hook: HookT) -> HookT:
        """Has a function called after each task that has succeeded, with the task and the message."""
        self.after_hooks.append(hook)
        return hook

    def failed(self, hook: FailedHookT) -> FailedHookT:
        """Has a function called when a task has failed, with the task, the message and the exception."""
        self.failed_hooks.append(hook)
        return hook

    # ------------------------------------------------------------------ putting

    def put(self, queue: str, put: Callable[[Any], R]) -> R:
        """Puts into a queue, which is declared if there is none."""
        client = self._connected()
        handle = client.queue(queue)
        try:
            return put(handle)
        except QueueNotExistingError:
            return put(client.declare_queue(queue, **self.settings.get(queue, {})))
        except AuthenticationFailedError:
            self.close()  # the user may be allowed to log in again: the next put tries that
            raise

    def _connected(self) -> TelestoClient:
        with self._lock:
            if self._client is None or self._process != os.getpid():
                self._client, self._process = TelestoClient(self.url, name=self._name), os.getpid()
                _OPEN.add(self)
            return self._client

    def close(self) -> None:
        """Closes the client by which tasks were put; the next put opens another one."""
        _OPEN.discard(self)
        with self._lock:
            client, self._client = self._client, None
        if client is not None and self._process == os.getpid():
            client.close()


@atexit.register
def close_all() -> None:
    """Closes the clients of all applications."""
    for app in list(_OPEN):
        app.close()


def current_message() -> Message:
    """Returns the message that the task is called for. Raises LookupError where no worker calls it."""
    return MESSAGE.get()
