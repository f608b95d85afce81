"""One connection to a middleware, without I/O: frames in, frames out, and whose packet id is whose."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from telesto.client.calls.queue_calls import SENT, Call
from telesto.client.url import Address
from telesto.protocol.errors import MessageTooLargeError, TelestoError
from telesto.protocol.framing import FrameDecoder
from telesto.protocol.packets import MAX_FRAME_UNIDENTIFIED, REQUESTS, Packet

if TYPE_CHECKING:
    import ssl

_PACKET_ID_MAX = 0xFFFFFFFF
_LENGTH_FIELD = 4


class InternalRequest(Call[None]):
    """A request that the library sends for itself.

    Attributes:
        on_refused: what happens when an error answers it.
        on_lost: what happens when the connection is lost before an answer.
    """

    def __init__(
        self,
        packet: Packet,
        on_answer: Callable[[Any], None] | None = None,
        on_refused: Callable[[TelestoError], None] | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        response = REQUESTS[packet.METHOD_ID].response
        assert response is not None
        self.packet = packet
        self.method = type(packet).__name__  # type: ignore[misc]
        self.response_type = response  # type: ignore[misc]
        self.response_id = response.METHOD_ID  # type: ignore[misc]
        self.on_answer = on_answer or _nothing
        self.on_refused = on_refused or _nothing
        self.on_lost = on_lost

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the packet."""
        return self.packet.encode(packet_id)


def _nothing(_: object) -> None:
    pass


class Link:
    """A connection.

    Attributes:
        address: where it leads.
        pending: the calls that wait for an answer, by packet id, in the order of sending.
        output: frames to be written.
        senders: whose they are.
        output_size: their bytes.
        packet_id: the last that a request was given.
        sent_at: when something was sent last.
        heard_at: when something came last; None when nothing has come since it was asked for.
        opened_at: when it was opened.
        first_bytes: the first bytes that came, until something of Telesto's protocol has; then None.
        unheard: bytes that were sent since something came.
        look_at: when to look whether the other end lives (telesto.client.connection.liveness).
        secured: its TLS; None without.
        max_frame: the longest frame that the middleware accepts at present.
        max_frame_identified: the longest frame that it accepts once it knows the client.
    """

    def __init__(
        self,
        address: Address,
        max_frame: int,
        now: float,
        ping_after: float,
        secured: ssl.SSLObject | ssl.SSLSocket | None = None,
    ) -> None:
        self.address = address
        self.secured = secured
        self.decoder = FrameDecoder(max_frame)
        self.pending: dict[int, Call[Any]] = {}
        self.output: list[bytes] = []
        self.senders: list[Call[Any]] = []
        self.output_size = 0
        self._sealed = 0
        self._released = 0
        self.sent_at = self.opened_at = now
        self.heard_at: float | None = now
        self.first_bytes: bytes | None = b""
        self.unheard = 0
        self.look_at = now + ping_after
        self._ping_after = ping_after
        self.max_frame = self.max_frame_identified = MAX_FRAME_UNIDENTIFIED
        self.packet_id = 0

    def send(self, call: Call[Any], number: int, confirmed: list[int], now: float) -> None:
        """Sends the request; raises MessageTooLargeError or InvalidParameterError, then nothing is sent."""
        packet_id = self.packet_id + 1
        if packet_id > _PACKET_ID_MAX or packet_id in self.pending:
            packet_id = self._free_packet_id()
        frame = call.frame(number, confirmed, packet_id, now)
        size = len(frame)
        if size - _LENGTH_FIELD > self.max_frame:
            raise MessageTooLargeError(
                f"the request has {size - _LENGTH_FIELD} bytes; the middleware accepts {self.max_frame}",
                method=call.method,
                queue_id=call.queue_id,
                address=str(self.address),
            )
        self.packet_id = packet_id
        call.packet_id = packet_id
        call.sent_at = now
        call.phase = SENT
        self.pending[packet_id] = call
        self.output.append(frame)
        self.senders.append(call)
        self.output_size += size
        self.unheard += size
        self.sent_at = now
        if now + self._ping_after < self.look_at:
            self.look_at = now + self._ping_after

    def take_output(self) -> bytes:
        """Returns what is to be written."""
        frames = self.output
        if not frames:
            return b""
        self.output = []
        self.senders = []
        self.output_size = self._sealed = self._released = 0
        return frames[0] if len(frames) == 1 else b"".join(frames)

    # With a state, frames wait for the flush of what they depend on

    def seal(self) -> None:
        """What is to be written by now depends on the flush that begins."""
        self._sealed = len(self.output)

    def release(self) -> None:
        """That flush is done."""
        self._released = self._sealed

    def take_released(self) -> bytes:
        """Returns what is to be written and waits for no flush."""
        count, self._released = self._released, 0
        if not count:
            return b""
        output = b"".join(self.output[:count])
        del self.output[:count]
        del self.senders[:count]
        self.output_size -= len(output)
        self._sealed = max(0, self._sealed - count)
        return output

    def take_back(self) -> list[Call[Any]]:
        """The flush failed: drops what waits for one; returns whose it was."""
        dropped = self.senders[self._released :]
        del self.output[self._released :]
        del self.senders[self._released :]
        self.output_size = sum(map(len, self.output))
        # A request whose caller gave up stands in place of the call that was sent.
        return [self.pending.pop(call.packet_id, call) for call in dropped]

    def _free_packet_id(self) -> int:
        packet_id = self.packet_id % _PACKET_ID_MAX + 1
        while packet_id in self.pending:
            packet_id = packet_id % _PACKET_ID_MAX + 1
        return packet_id
