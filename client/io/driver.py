"""Moves a session's bytes for threads that block: who waits for the socket, and who for whom.

There is no thread between a caller and the socket: a calling thread sends its request itself and, when no
other thread does, waits for the socket itself until its answer has come; it is then the driver. Callers that
come meanwhile follow: they sleep until the driver has their answer or leaves and makes one of them the
driver. A single caller thus never pays for a change of threads. When there is no caller, the background
thread (client/io/background_thread.py) does what is due.
"""

from __future__ import annotations

import math
import select
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from telesto.client.bookkeeping.consumer_calls import NextCall
from telesto.client.bookkeeping.consumer_state import ConsumerState
from telesto.client.bookkeeping.identity import WantedClient
from telesto.client.calls.queue_calls import DONE, Call
from telesto.client.calls.state import StateChanges, StateStore
from telesto.client.connection.link import Link
from telesto.client.durable.durable_session import DurableSession
from telesto.client.durable.state_directory import StateDirectory
from telesto.client.errors import (
    CallInterruptedBySignalError,
    ClientInterruptedError,
    ForkedError,
    StateError,
    StateWriteError,
    connection_failure,
    tls_alert,
)
from telesto.client.io import forks, shared
from telesto.client.io.background_thread import BackgroundThread
from telesto.client.io.shared import StateDir
from telesto.client.io.waker import QuietSocket, Waker
from telesto.client.models import Message
from telesto.client.options import ClientOptions
from telesto.client.session.session import Session
from telesto.client.url import Address, TlsParameters

if TYPE_CHECKING:
    import ssl

ResultT = TypeVar("ResultT")
CallT = TypeVar("CallT", bound=Call[Any])
ArgumentsT = ParamSpec("ArgumentsT")

#: Small enough for the allocator's fast path.
_RECEIVE_SIZE = 64 * 1024
#: An attempt to connect gets this much time at least, in seconds, whatever else is due.
_CONNECT_TIME_MIN = 0.05
#: How often a write of the state is begun anew when its caller is interrupted.
_WRITES_INTERRUPTED_MAX = 3
#: No wait for an answer or a message is longer at a time, in seconds. A signal that arrives just before the
#: main thread begins to wait does not interrupt the wait, and its handler runs only when that is over.
SIGNAL_UNHEARD_MAX = 2.0


class Driver:
    """Drives a session for any number of threads.

    The methods for the client take ``lock``. All others are to be called with it held; those that wait let go
    of it meanwhile.

    Attributes:
        inner_lock: the lock, for the background thread, whose thread no signal's handler interrupts.
        session: the session.
        options: the client's bounds and times.
        sock: the connection in use; None without one.
        driven_by: which thread waits for the socket, or connects; 0 for none.
        waiting: it waits for the socket.
        changes: how often a thread has stopped driving.
    """

    def __init__(
        self,
        session: Session,
        options: ClientOptions,
        wanted: WantedClient,
        state_dir: StateDir | None,
        tls: TlsParameters | None,
    ) -> None:
        self._wanted = wanted
        self._tls = shared.client_tls(tls)
        self._state_dir = state_dir
        # It is taken once at a time. It knows its owner, so a signal's handler can ask whom it interrupted.
        self.inner_lock = threading.RLock()
        self.session = session
        self.options = options
        self.sock: socket.socket | None = None
        self.driven_by = 0
        self.changes = 0
        self._connect_timeout = options.connect_timeout
        self._link: Link | None = None
        self._unsent = b""
        self._waker = Waker()
        self._poll = select.poll()
        self._poll.register(self._waker, select.POLLIN)
        self._awaited: Call[Any] | None = None
        self.waiting = False
        self._waiting_until = math.inf
        self._followers: dict[Call[Any], threading.Lock] = {}
        #: The threads that are in a call and have released the lock, except the one that drives.
        self._away: set[int] = set()
        self._closer: Call[Any] | None = None
        self._closed = False
        self._intact = True
        self._durable = session if isinstance(session, DurableSession) else None
        self._store: StateStore | None = None
        self._writer = threading.Lock()
        self._background = BackgroundThread(self, options)
        forks.watch(self)

    @property
    def lock(self) -> threading.RLock:
        """Guards the session and the driver; a thread that calls the client holds it.

        Raises CallInterruptedBySignalError in a signal's handler that has interrupted a call in this thread:
        it would wait for a lock, or an answer, that only the interrupted call can give.
        """
        if self.in_call:
            raise CallInterruptedBySignalError(
                "a signal's handler called the client in a thread that is in a call of it"
            )
        return self.inner_lock

    @property
    def in_call(self) -> bool:
        """Tells whether this thread is in a call: then this is asked by a signal's handler."""
        thread = threading.get_ident()
        return (
            thread == self.driven_by or thread in self._away or self.inner_lock._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way to ask
        )

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        """The client was dropped without ``close``: gives back what it has, and tells the service nothing.

        Nothing calls it any more. Its own thread, which held it only at work, may be the one that runs this.
        """
        if getattr(self, "_background", None) is None or self._closed:
            return
        self._closed = True
        used = self._background.started or self.sock is not None or self._store is not None
        self._background.dropped()
        if self.sock is not None:
            self.sock.close()
        self._waker.close()
        self._close_store()
        self.session.unlock_name()
        if used:
            warn(f"unclosed {self.session.describe('TelestoClient')}", ResourceWarning, source=self)

    # ------------------------------------------------------------------ for the client

    def attach(self) -> None:
        """Raises CallInterruptedBySignalError in a signal's handler that would wait for its own thread."""
        _ = self.lock

    def connect_client(self) -> None:
        """Becomes the client, unless it is one already, and waits for that. Raises StateError."""
        with self.lock:
            self._open_state()
            self._result(self.session.connect(shared.identity(self.session, self._wanted)))

    def start_connecting(self) -> None:
        """Begins to become the client, unless it has been begun. Raises StateError."""
        with self.lock:
            self._start_connecting()

    def _start_connecting(self) -> None:
        if not self.session.begun:
            self._open_state()
            self.session.begin(shared.identity(self.session, self._wanted))

    def _open_state(self) -> None:
        """Opens the session's state, if it has one, once."""
        if self._durable is not None and self._store is None and not self.session.closed:
            assert self._state_dir is not None
            store = StateDirectory(self._state_dir)
            self._durable.load(store.stored)
            self._store = store

    def run(self, call: Call[ResultT]) -> ResultT:
        """Makes a call and waits for its end."""
        with self.lock:
            self._submit(call)
            return self._result(call)

    def start(self, call: CallT) -> CallT:
        """Makes a call, to be waited for by ``wait_for`` or given up by ``abandon``."""
        return self.tell(self._submit, call)

    def wait_for(self, call: Call[ResultT]) -> ResultT:
        """Waits for the end of a call that is made already."""
        with self.lock:
            return self._result(call)

    def abandon(self, given_up: Iterable[Call[Any]]) -> None:
        """Gives up calls that are made already."""
        with self.lock:
            for call in given_up:
                self.session.abandon(call)
            self.push()
            self.hand_on()

    def ask(
        self, make: Callable[ArgumentsT, Call[ResultT]], *args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs
    ) -> ResultT:
        """Has the session make a call and waits for its end."""
        with self.lock:
            return self._result(make(*args, **kwargs))

    def tell(
        self, act: Callable[ArgumentsT, ResultT], *args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs
    ) -> ResultT:
        """Has the session do something that needs no answer, and sends what comes of it."""
        with self.lock:
            result = act(*args, **kwargs)
            self.push()
            self.hand_on()
            return result

    def flush_soon(self) -> None:
        """Does what the session wants."""
        with self.lock:
            self.push()
            self.hand_on()

    def tell_in_signal(
        self, act: Callable[ArgumentsT, object], *args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs
    ) -> None:
        """Does as ``tell``, also in a signal's handler that has interrupted a call."""
        if self.in_call:
            beside(lambda: self.tell(act, *args, **kwargs))
        else:
            self.tell(act, *args, **kwargs)

    def pause(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def next_message(self, state: ConsumerState, timeout: float) -> NextCall:
        """Waits for a consumer's next message; the service has been told that it is given."""
        with self.lock:
            call = self.session.next_message(state, timeout)
            self._result(call)
            return call

    def begin(self, state: ConsumerState, message: Message, now: float) -> None:
        """Tells the service that a handler begins."""
        self.tell(self.session.consumers.begin, state, message, now)

    @staticmethod
    def is_failure(error: BaseException) -> bool:
        """Tells whether what left the block of a message counts as its failure."""
        return isinstance(error, Exception)

    def _submit(self, call: CallT) -> CallT:
        if self._durable is not None:
            thread = threading.current_thread()
            shared.with_reader(call, thread, lambda: not thread.is_alive())
        if not self.session.begun:
            self._start_connecting()
        self.session.submit(call)
        return call

    def _result(self, call: Call[ResultT]) -> ResultT:
        """Sends what can be sent and waits until the call is over; the lock is held."""
        try:
            self.push()
            while call.phase != DONE:
                if self.driven_by:
                    self._follow(call)
                else:
                    self._drive(call)
        except BaseException:
            self._interrupted(call)
            raise
        try:
            return self.session.take(call)
        finally:
            self.hand_on()

    # ------------------------------------------------------------------ callers

    def hand_on(self) -> None:
        """The calling thread leaves: another caller, or the background thread, has to watch the socket."""
        self.changes += 1
        if self.driven_by:
            return
        if self._followers:
            call = next(iter(self._followers))
            self._followers.pop(call).release()
        elif self._closed:
            self._waker.close()
        else:
            self._background.notice()

    def push(self) -> None:
        """Sends what the session wants to send, and wakes the callers whose calls are over."""
        self._push()
        while self._flush():
            self._push()

    def _push(self) -> None:
        session = self.session
        self._intact = False
        while True:
            session.pump()
            output = session.take_output()
            if not output:
                break
            self._send(output)
            if not session.writable:
                break
        completed = session.take_completed()
        self._intact = True
        if session.link is not self._link:
            self._drop()
        if completed:
            self._wake(completed)
        if self._closer is not None and session.finished:
            self._wake([self._closer])
        if self.waiting and session.timer < self._waiting_until:
            self._waker.wake()

    def _flush(self) -> bool:
        """Writes what the session has to have written, if anything, in the calling thread.

        What other threads do meanwhile is written together, by this thread too.
        """
        session = self._durable
        if session is None or self._store is None:
            return False
        self._intact = False
        if not self._writer.acquire(blocking=False):
            self._intact = True
            return False
        try:
            changes = session.begin_flush()
            interruption = None
            if changes is not None:
                error, interruption = self._write(self._store, changes)
                session.end_flush(error)
            self._intact = True
        finally:
            self._writer.release()
        if interruption is not None:
            raise interruption
        return changes is not None

    def _write(
        self, store: StateStore, changes: StateChanges
    ) -> tuple[StateError | None, BaseException | None]:
        """Writes with the lock released. When the caller is interrupted, this is finished first."""
        interruption = None
        self._intact = True
        thread = threading.get_ident()
        self._away.add(thread)
        try:
            self.inner_lock.release()
            for _ in range(_WRITES_INTERRUPTED_MAX):
                try:
                    if changes:
                        store.write(changes)
                except StateError as error:
                    return error, interruption
                except BaseException as raised:  # noqa: BLE001 - by a signal's handler; raised again later
                    interruption = raised
                else:
                    return None, interruption
            return StateWriteError("writing the client's state was interrupted"), interruption
        finally:
            self.inner_lock.acquire()
            self._away.discard(thread)
            self._intact = False

    def close(self, *, failed: bool = False) -> None:
        """Closes the session: tells the service what it has to know, and leaves the connection."""
        self.session.begin_close(failed=failed)
        closer = self._closer = Call[None]()
        try:
            self.push()
            while not self.session.finished:
                if self.driven_by:
                    self._follow(closer)
                else:
                    self._turn(closer)
        finally:
            self._closer = None
            self._closed = True
            self.session.end_close()
            self._write_the_rest()
            self._close_store()
            self.hand_on()

    def free(self) -> None:
        """Ends the background thread; to be called without the lock, after ``close``."""
        self._background.stop()

    def forked(self, error: ForkedError) -> None:
        """Lets go of everything in a child process, whatever the parent's threads were doing.

        A client that was not used yet has nothing of the parent's but its waker, and may be used.
        """
        self.inner_lock = threading.RLock()
        used = self._background.started or self._closed or self.driven_by or self.session.begun
        if not used and self.session.next_attempt is None and self._link is None:
            self._waker.close()
            self._waker = Waker()
            self._poll = select.poll()
            self._poll.register(self._waker, select.POLLIN)
            return
        self.driven_by = 0
        self._away.clear()
        self.waiting = False
        self._closed = True
        self._followers.clear()
        self.session.fail_all(error)
        if self._store is not None:
            self._store.forked()
            self._store = None
        self._background.forked()
        self._drop()
        self._waker.close()

    def _drive(self, call: Call[Any]) -> None:
        self._background.stop_watching()
        while call.phase != DONE:
            self._turn(call)

    def _follow(self, call: Call[Any]) -> None:
        """Sleeps until the call is over or this thread has to drive."""
        gate = threading.Lock()
        gate.acquire()
        thread = threading.get_ident()
        try:
            self._away.add(thread)
            self._followers[call] = gate
            try:
                self.inner_lock.release()
                while not gate.acquire(timeout=SIGNAL_UNHEARD_MAX):
                    pass
            finally:
                self.inner_lock.acquire()
        finally:
            self._followers.pop(call, None)
            self._away.discard(thread)

    def _wake(self, completed: list[Call[Any]]) -> None:
        for call in completed:
            gate = self._followers.pop(call, None)
            if gate is not None:
                gate.release()
            elif call is self._awaited and self.waiting:
                self._waker.wake()

    def _interrupted(self, call: Call[Any]) -> None:
        """The caller was interrupted, by Ctrl-C for example, and goes."""
        if self._intact:
            self.session.abandon(call)
            self.push()
        else:  # in the middle of a change: nothing can be relied on but the next takeover
            self._close_store()
            self.session.fail_all(
                ClientInterruptedError("the client was interrupted at work; open a new one")
            )
            self.push()
        self.hand_on()

    def _write_the_rest(self) -> None:
        """Writes what is left, after the write of another thread if one is under way."""
        self.push()
        thread = threading.get_ident()
        while self._writer.locked():
            self._away.add(thread)
            try:
                self.inner_lock.release()
                self._writer.acquire()
            finally:
                self.inner_lock.acquire()
                self._away.discard(thread)
            self._writer.release()
            self.push()

    def _close_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    # ------------------------------------------------------------------ driving

    def serve_due(self) -> None:
        """Does what is due, without waiting."""
        if self.session.timer <= time.monotonic():
            self._intact = False
            self.session.tick()
            self._intact = True
        self.push()

    def serve_socket(self) -> None:
        """Takes what has come, without waiting."""
        self._receive()
        self.serve_due()

    def connect(self) -> None:
        """Connects, when the session wants to and when it is time; waits for that."""
        self._turn(None)

    def _turn(self, call: Call[Any] | None) -> None:
        """Waits for the next event and handles it."""
        self._awaited = call
        try:
            self.driven_by = threading.get_ident()
            if self.sock is None:
                self._connect()
            else:
                self._wait(self.session.timer)
                self._receive()
                if self._unsent:
                    self._send(b"")
            self.serve_due()
        finally:
            self.driven_by = 0
            self._awaited = None

    def _wait(self, until: float) -> None:
        """Waits for the socket or a wake-up, with the lock released."""
        timeout_ms = 1000 * max(0.0, min(until - time.monotonic(), SIGNAL_UNHEARD_MAX))
        if self.sock is not None:
            self._poll.register(self.sock, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        self.waiting = True
        self._waiting_until = until
        try:
            self.inner_lock.release()
            events = self._poll.poll(timeout_ms)
        finally:
            self.inner_lock.acquire()
            self.waiting = False
        if any(descriptor == self._waker.fileno() for descriptor, _ in events):
            self._waker.clear()

    def _receive(self) -> None:
        if self.sock is None:
            return
        try:
            data = self.sock.recv(_RECEIVE_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(tls_alert(error))
            return
        if not data:
            self._lost("the middleware closed it")
            return
        self._intact = False
        self.session.feed(data)
        self._intact = True

    def _send(self, output: bytes) -> None:
        """Writes as much as the socket takes; the session may send more when that was all."""
        if self.sock is None:
            return
        data = self._unsent + output if self._unsent else output
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._lost(tls_alert(error))
            return
        self._unsent = data[sent:]
        self.session.writable = not self._unsent
        if self._unsent and self.waiting:
            self._waker.wake()

    def _lost(self, reason: str) -> None:
        if self._link is not None and self.session.link is self._link:
            self.session.link_closed(reason)

    def _drop(self) -> None:
        """Closes the connection that the session has left."""
        if self.waiting:  # another thread still waits for it
            self._waker.wake()
            return
        if self.sock is not None:
            self._background.stop_watching()
            self._poll.unregister(self.sock)
            self.sock.close()
        self.sock = None
        self._link = None
        self._unsent = b""

    # ------------------------------------------------------------------ connecting

    def _connect(self) -> None:
        attempt = self.session.next_attempt
        if attempt is None or attempt[1] > time.monotonic():
            self._wait(min(self.session.timer, math.inf if attempt is None else attempt[1]))
            return
        address = attempt[0]
        outcome = self._open(address)
        if not isinstance(outcome, socket.socket):
            if self.session.next_attempt is not None:
                error = connection_failure(str(address), outcome, tls=self._tls is not None)
                self.session.attempt_failed(error)
        elif self.session.next_attempt is None:
            outcome.close()
        else:
            self.sock = outcome
            self.sock.setblocking(False)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._poll.register(self.sock, select.POLLIN)
            secured = None if self._tls is None else cast("ssl.SSLSocket", outcome)
            self._link = self.session.link_up(address, secured)

    def _open(self, address: Address) -> socket.socket | OSError | UnicodeError:
        """Opens a connection, with the lock released; an attempt ends in time for what is due."""
        left = max(_CONNECT_TIME_MIN, self.session.timer - time.monotonic())
        try:
            self.inner_lock.release()
            sock = socket.create_connection(address, min(self._connect_timeout, left))
            return QuietSocket.instead_of(sock) if self._tls is None else self._tls.secure(sock, address.host)
        except (OSError, UnicodeError) as failure:
            return failure
        finally:
            self.inner_lock.acquire()


def beside(act: Callable[[], object]) -> None:
    """Does something in another thread, for a signal's handler whose own thread is in a call of the client.

    The thread is started by another one, since the handler may have interrupted the start of a thread.
    """
    import _thread

    _thread.start_new_thread(lambda: threading.Thread(target=act, name="telesto-stop").start(), ())
