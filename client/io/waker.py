"""Wakes a thread that waits for a socket."""

from __future__ import annotations

import contextlib
import socket


class QuietSocket(socket.socket):
    """A socket that says nothing when it is dropped: of a client that is dropped, the client says it."""

    def __del__(self) -> None:
        self.close()

    @classmethod
    def instead_of(cls, sock: socket.socket) -> QuietSocket:
        """Takes over the descriptor of a socket. It blocks, or not, as Python's default says."""
        return cls(fileno=sock.detach())


class Waker:
    """A pair of sockets: what one thread writes makes the other's poll return."""

    def __init__(self) -> None:
        self._reading, self._writing = map(QuietSocket.instead_of, socket.socketpair())
        self._reading.setblocking(False)
        self._writing.setblocking(False)

    def fileno(self) -> int:
        """The descriptor that becomes readable."""
        return self._reading.fileno()

    def wake(self) -> None:
        """Makes the poll return, the present one or else the next one."""
        with contextlib.suppress(BlockingIOError):  # it is full, so the poll returns anyway
            self._writing.send(b"\0")

    def clear(self) -> None:
        """Forgets what was written."""
        with contextlib.suppress(BlockingIOError):
            while len(self._reading.recv(4096)) == 4096:
                pass

    def close(self) -> None:
        """Frees the sockets."""
        self._reading.close()
        self._writing.close()
