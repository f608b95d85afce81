"""What all packets have in common, and what the middleware and the client need to know about a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from telesto.protocol.enums import ClientMode, ConnectionState


class Structure:
    """A struct or packet: the generated classes in telesto.protocol.packets derive from it.

    Its fields are its slots, in the order of the specification. It is not a dataclass: making more than a
    hundred of those takes some 30 ms at the start of every program that imports them.
    """

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__qualname__}({fields})"


class Packet(Structure):
    """One packet of the protocol: the generated classes in telesto.protocol.packets derive from it."""

    __slots__ = ()

    #: Identifies the packet on the wire.
    METHOD_ID: ClassVar[int]

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame, its length field included.

        Raises InvalidParameterError, which names the field, for a value that its type cannot hold.
        """
        raise NotImplementedError

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads what follows the packet id in a frame.

        Raises MalformedPacketError, or UnsupportedFieldError for a tagged field that must be understood and
        is not known; both name the packet and the field.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What the specification says about a packet that clients send.

    Attributes:
        packet: its class.
        response: the class of its answer; an Error may come instead. None when there is no answer.
        allowed: the states of the connection in which it may be sent.
        leads_to: the state of the connection after its success, None when that does not change.
        numbered: it begins with number and confirmed and leaves its result until it is confirmed.
        mode: the least that the client must be allowed, None before there is a client.
    """

    packet: type[Packet]
    response: type[Packet] | None
    allowed: frozenset[ConnectionState]
    leads_to: ConnectionState | None
    numbered: bool
    mode: ClientMode | None
