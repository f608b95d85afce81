"""Frames that no client would send: those of the vectors, changed in their fields or in their bytes."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

from telesto.protocol.errors import TelestoError
from telesto.protocol.framing import FrameDecoder
from telesto.protocol.packet import Packet, Structure
from telesto.protocol.packets import MAX_FRAME_DEFAULT, PACKETS, REQUESTS, ConnectionState

_VECTORS = Path(__file__).parents[2] / "protocol" / "vectors"
#: Bounds of the types on the wire, and what is beside them.
_NUMBERS = [0, 1, 2, 7, 127, 128, 255, 256, 1_000, 65_535, 65_536]
_NUMBERS += [2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1, -1, -2, -(2**31), -(2**63)]
_TEXTS = ["", "a", "orders", "null", "NaN", "é" * 100, "x" * 255, "x" * 256, "x" * 70_000]
_TEXTS += ["%", "_", "\\", "'", '"', "';--", "'); DROP TABLE telesto.messages; --", "$1", "%s", "{}", "../.."]
_TEXTS += ["\r\n", "a=b\nc=d", "\x1b[2J", "\x7f", "\u202e", "\ufffe", "\U0001f4a9"]
_BODIES = [b"", b"\0", b"\xff" * 3, b"x" * 70_000, b"{}"]
#: No mutation makes a frame longer than this, in bytes.
_LONGEST = 1 << 20


class Mill:
    """Makes frames from a seed.

    Attributes:
        ids: ids that there are, as the answers name them, by the names of their fields.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.ids: dict[str, list[int]] = {}
        self._seen: list[bytes] = []
        self._requests: list[Packet] = []
        for path in sorted(_VECTORS.glob("*.json")):
            for case in json.loads(path.read_text(encoding="utf-8")):
                frame = bytes.fromhex(case["frame"])
                self._seen.append(frame)
                if case.get("packet") and path.stem not in ("malformed", "tolerated"):
                    (whole,) = FrameDecoder(MAX_FRAME_DEFAULT).feed(frame)
                    info = REQUESTS.get(whole.method_id)
                    if info is not None and ConnectionState.IDENTIFIED in info.allowed:
                        self._requests.append(PACKETS[whole.method_id].decode(whole.payload))

    def request(self, packet_id: int, number: int) -> tuple[bytes, bool]:
        """Returns a frame, and whether it is a well-formed one that takes the number."""
        chance = self._chance
        packet = copy.deepcopy(chance.choice(self._requests))
        self._name_what_there_is(packet)
        for _ in range(chance.choice([0, 0, 1, 1, 2, 4])):
            self._change(packet)
        takes = hasattr(packet, "number") and chance.random() < 0.9
        if takes:
            packet.number = number
        try:
            frame = packet.encode(packet_id)
        except (TelestoError, ValueError, TypeError, AttributeError):  # what a field cannot hold
            return self.bytes(), False
        if len(frame) > _LONGEST:
            return self.bytes(), False
        if chance.random() < 0.06:
            return self._torn(frame), False
        return frame, takes

    def bytes(self) -> bytes:
        """Returns the frame of a vector with bytes changed."""
        return self._torn(self._chance.choice(self._seen))

    def _torn(self, frame: bytes) -> bytes:
        chance, data = self._chance, bytearray(frame)
        for _ in range(chance.choice([1, 1, 2, 8])):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(7):
                case 0 if data:
                    data[min(at, len(data) - 1)] ^= 1 << chance.randrange(8)
                case 1:
                    del data[at : at + chance.randint(1, 9)]
                case 2:
                    data[at:at] = chance.randbytes(chance.randint(1, 9))
                case 3:
                    number = chance.choice(_NUMBERS) & (2**64 - 1)
                    size = chance.choice([1, 2, 4, 8])
                    data[at : at + size] = (number & (256**size - 1)).to_bytes(size, "big")
                case 4:
                    data[at:at] = data[at : at + chance.randint(1, 64)] * chance.choice([1, 2, 50])
                case 5:
                    other = chance.choice(self._seen)
                    data[at:] = other[chance.randrange(len(other)) :]
                case _:
                    del data[at:]
        if chance.random() < 0.7 and len(data) > 4:  # else the length is what it is
            data[:4] = (len(data) - 4).to_bytes(4, "big")
        return bytes(data[:_LONGEST])

    def _change(self, structure: Structure) -> None:
        names = [name for name in type(structure).__slots__ if hasattr(structure, name)]
        if not names:
            return
        name = self._chance.choice(names)
        setattr(structure, name, self._other(getattr(structure, name)))

    def _other(self, value: Any) -> Any:
        chance = self._chance
        if isinstance(value, Structure):
            self._change(value)
            return value
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return chance.choice([chance.choice(_NUMBERS), self._id(value), value + 1, value - 1])
        if isinstance(value, str):
            return chance.choice(_TEXTS)
        if isinstance(value, bytes):
            return chance.choice([*_BODIES, chance.randbytes(chance.randrange(64))])
        if isinstance(value, list):
            return self._other_list(value)
        # A field that may be left out: what it holds is not known here, so one type after the other is tried.
        return chance.choice([None, chance.choice(_NUMBERS), chance.choice(_TEXTS), chance.choice(_BODIES)])

    def _other_list(self, values: list[Any]) -> list[Any]:
        chance = self._chance
        match chance.randrange(4):
            case 0:
                return []
            case 1:
                many = 70 if values and isinstance(values[0], Structure) else 1_100
                return values * chance.choice([2, 3, many])
            case 2 if values:
                changed = copy.deepcopy(values)
                at = chance.randrange(len(changed))
                changed[at] = self._other(changed[at])
                return changed
            case _:
                return [self._id(chance.choice(_NUMBERS)) for _ in range(chance.randint(1, 5))]

    def _id(self, otherwise: int) -> int:
        return self._chance.choice([otherwise, *(ids[-1] for ids in self.ids.values())])

    def _name_what_there_is(self, structure: Structure) -> None:
        """Puts ids that there are in place of many of those of the vectors."""
        for name in type(structure).__slots__:
            value = getattr(structure, name, None)
            parts = value if isinstance(value, list) else [value]
            for part in parts:
                if isinstance(part, Structure):
                    self._name_what_there_is(part)
            known = self.ids.get(name.removesuffix("s"))
            if known and self._chance.random() < 0.7:
                if isinstance(value, list):
                    setattr(structure, name, [self._chance.choice(known) for _ in value])
                elif isinstance(value, int):
                    setattr(structure, name, self._chance.choice(known))
