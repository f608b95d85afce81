"""Has the handlers of the blocking client work in threads on what a consumer is given."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from telesto.client import arguments
from telesto.client.blocking.consumer import Consumer, LeasedMessage
from telesto.client.calls import failures, tracing
from telesto.client.errors import ClientClosedError, RequestRefusedError
from telesto.client.io import shared
from telesto.client.io.driver import SIGNAL_UNHEARD_MAX, Driver, beside
from telesto.client.models import Body, Duration, Message
from telesto.protocol.errors import InvalidParameterError, RejectedError

#: How long handlers under way may take when a consumer ends, in seconds, unless the application decides.
#: Less than the 30 seconds that platforms for containers give between SIGTERM and SIGKILL.
DRAIN = 20.0

Handler = Callable[[Message], object]
RequestHandler = Callable[[Message], Body | None]
OnError = Callable[[Message, BaseException], object]


class Pool:
    """Has a handler work on what a consumer is given: several messages at a time, but one of each partition.

    Attributes:
        ended: its consumer has left the queue.
    """

    def __init__(
        self, consumer: Consumer, handler: Handler, on_error: OnError, concurrency: int, drain: float
    ) -> None:
        self._consumer = consumer
        self._handler = handler
        self._on_error = on_error
        self._concurrency = concurrency
        self._drain = drain
        self._runner = threading.get_ident()
        self._workers: set[int] = set()
        self._until = math.inf
        self._unfit: InvalidParameterError | None = None
        self._free = threading.Semaphore(concurrency)
        self._stopping = False
        self.ended = threading.Event()

    @property
    def is_mine(self) -> bool:
        """Tells whether this thread runs it, or a handler of it: then it must not wait for its end."""
        thread = threading.get_ident()
        return thread == self._runner or thread in self._workers

    def stop(self, drain: float | None = None) -> None:
        """Has nothing more begun, and what runs ended within ``drain`` seconds, or what it was made with.

        Again with ``drain`` while handlers end, it shortens the time that they have.
        """
        self._end_within(drain)

        def stop() -> None:
            self._free.release()  # the thread that runs it may wait for handlers to end
            self._consumer.stop()

        if self.is_mine:  # in a signal's handler, which may have interrupted a use of the semaphore
            beside(stop)
        else:
            stop()

    def run(self) -> None:
        """Works until it is stopped, or the client or the consumer is closed; then handlers may end in time.

        What has not ended in time goes back, as does what was not begun. When all handlers ended in time,
        their threads have ended too. Raises InvalidParameterError when the handler turns out not to do its
        work when it is called.
        """
        from concurrent.futures import ThreadPoolExecutor

        threads = ThreadPoolExecutor(self._concurrency, "telesto consumer")
        self._consumer._give_to_handlers()

        def work(leased: LeasedMessage) -> None:
            try:
                self._work(leased)
            finally:
                self._free.release()

        try:
            while True:
                while not self._free.acquire(timeout=SIGNAL_UNHEARD_MAX):
                    pass
                if self._stopping or (leased := self._consumer.get()) is None:
                    break
                threads.submit(work, leased)
        except ClientClosedError:
            pass
        finally:
            try:
                self._end_within(None)
                self._consumer.stop()
                # One that is not among the workers yet will see that nothing more is to be begun.
                while self._workers and (left := self._until - time.monotonic()) > 0:
                    self._free.acquire(timeout=min(left, SIGNAL_UNHEARD_MAX))
            finally:
                # What ended in time leaves no thread behind; what did not is not waited for.
                threads.shutdown(wait=not self._workers, cancel_futures=True)
        if self._unfit is not None:
            raise self._unfit

    def _end_within(self, drain: float | None) -> None:
        if drain is not None or not self._stopping:
            until = time.monotonic() + (self._drain if drain is None else drain)
            self._until = min(self._until, until)
        self._stopping = True

    def _work(self, leased: LeasedMessage) -> None:
        thread = threading.get_ident()
        self._workers.add(thread)
        try:
            self._handle(leased)
        finally:
            self._workers.discard(thread)
            self._consumer._ended(leased)

    def _handle(self, leased: LeasedMessage) -> None:
        """Has the handler work on a message, and answers it; that the client is closed is not its failure."""
        try:
            if self._stopping:
                if leased.held:
                    leased._give_back()
            elif leased._begin():
                with leased:
                    with tracing.processing(leased.message, self._consumer._queue.name):
                        result = self._handler(leased.message)
                    if result is not None:
                        self._check(leased, result)
        except BaseException as error:  # noqa: BLE001 - a thread of a pool has no caller
            if isinstance(error, ClientClosedError) and self._consumer._client_closed:
                log_unanswered(leased.message)
            else:
                tell_failure(self._on_error, leased.message, error)

    def _check(self, leased: LeasedMessage, result: object) -> None:
        """Ends the pool when nothing was done for a message, which goes back and is no failed attempt."""
        try:
            arguments.check_has_run("handler", result)
        except InvalidParameterError as error:
            self._unfit = error
            self.stop()
            leased._give_back()


class Pools:
    """All that works for one client on what its consumers are given.

    Attributes:
        closed: the client is closed.
        running: those that work now.
    """

    def __init__(self) -> None:
        self.running: set[Pool] = set()
        self._ending = False
        self.closed = threading.Event()

    def run(
        self,
        consumer: Consumer,
        handler: Handler,
        concurrency: int,
        on_error: OnError,
        drain: Duration,
        stop_signals: Iterable[signal.Signals],
    ) -> None:
        """Has a handler work on what a consumer is given, until a signal arrives or the client is closed."""
        arguments.check_count("concurrency", concurrency)
        arguments.check_plain("handler", handler)
        arguments.check_plain("on_error", on_error)
        drain_s = arguments.check_timeout(drain, "drain")
        signals = arguments.check_signals("stop_signals", stop_signals)
        pool = Pool(consumer, handler, on_error, concurrency, drain_s)
        self.running.add(pool)
        try:
            if self._ending:
                raise failures.closed_error()
            with stopping_at(signals, pool.stop), consumer:
                pool.run()
        finally:
            pool.ended.set()
            self.running.discard(pool)
        if self._ending:  # by a signal's handler in this thread, maybe, which leaves the waiting to this
            self.closed.wait()

    def close(self, closing: Callable[[], None], *, aside: bool) -> None:
        """Lets the client close; ``aside``, or when a handler asks for it, in another thread, which is not
        waited for."""
        self._ending = True
        if aside or any(pool.is_mine for pool in self.running):
            beside(closing)
        else:
            closing()

    def end(self, drain: float | None) -> None:
        """Has all end within ``drain`` seconds, or what each was made with, and waits until they have."""
        pools = list(self.running)
        for pool in pools:
            pool.stop(drain)
        for pool in pools:
            pool.ended.wait()


def answering(driver: Driver, handler: RequestHandler, on_error: OnError) -> Handler:
    """Returns the handler of messages that puts what a handler of requests returns or raises."""
    arguments.check_plain("handler", handler)

    warn_once = unanswered_warning(handler)

    def serve(request: Message) -> object:
        try:
            body = handler(request)
            warn_once(request, body)
            if body is None or request.correlation_id is None or arguments.is_to_be_run(body):
                return body
            reply = shared.reply_call(request, body, once=True)
        except Exception as error:
            if request.correlation_id is None or isinstance(error, ClientClosedError):
                raise
            if isinstance(error, RequestRefusedError):
                log_refusal(request, error)
            else:
                tell_failure(on_error, request, error)
            reply = shared.failure_reply(request, error)
        try:
            return driver.run(reply)
        except RejectedError as error:  # such as one that is too large
            tell_failure(on_error, request, error)
            return driver.run(shared.failure_reply(request, error))

    return serve


def tell_failure(on_error: OnError, message: Message, failure: BaseException) -> None:
    """Tells the application that its handler has failed; if it fails on that too, this is logged."""
    try:
        arguments.check_has_run("on_error", on_error(message, failure))
    except Exception as error:  # noqa: BLE001 - other messages do not wait for it, whatever it is
        log_failure(message, error)


def log_failure(message: Message, error: BaseException) -> None:
    """Says that a handler has failed."""
    import logging

    logging.getLogger("telesto.client").error(
        "the handler failed on message %s of queue %s", message.message_id, message.queue_id, exc_info=error
    )


def log_refusal(request: Message, refusal: RequestRefusedError) -> None:
    """Says that a handler has refused a request."""
    import logging

    logging.getLogger("telesto.client").info(
        "request %s of queue %s is refused: %s: %s",
        request.message_id,
        request.queue_id,
        type(refusal).__name__,
        refusal,
    )


def unanswered_warning(handler: Callable[..., object]) -> Callable[[Message, Body | None], None]:
    """Returns what says, once, that a handler of requests returned no response to one who waits for it."""
    warned = False

    def warn(request: Message, body: Body | None) -> None:
        nonlocal warned
        if body is None and request.correlation_id is not None and not warned:
            import logging

            warned = True
            logging.getLogger("telesto.client").warning(
                "%s returned None for request %s of queue %s, so its asker waits for nothing unless another "
                "answers; an empty response is b''",
                getattr(handler, "__qualname__", None) or repr(handler),
                request.message_id,
                request.queue_id,
            )

    return warn


def log_unanswered(message: Message) -> None:
    """Says that the client was closed before a message that was begun was answered."""
    import logging

    logging.getLogger("telesto.client").warning(
        "the client was closed before message %s of queue %s was acknowledged: it comes again",
        message.message_id,
        message.queue_id,
    )


@contextmanager
def stopping_at(signals: Iterable[signal.Signals], stop: Callable[[], None]) -> Iterator[None]:
    """Has the first of these signals stop what runs meanwhile; the next one does what it did before.

    Raises InvalidParameterError outside of the main thread, which alone hears of signals.
    """
    before: dict[signal.Signals, Any] = {}

    def arrived(number: int, frame: FrameType | None) -> None:
        put_back(before)
        stop()

    try:
        for number in signals:
            try:
                before[number] = signal.signal(number, arrived)
            except (ValueError, OSError) as error:
                raise InvalidParameterError(f"stop_signals: no handler for {number!r}: {error}") from error
        yield
    finally:
        put_back(before)


def put_back(handlers: dict[signal.Signals, Any]) -> None:
    """Has signals do what they did before, those that still do something else."""
    while handlers:
        number, handler = handlers.popitem()
        signal.signal(number, handler if handler is not None else signal.SIG_DFL)
