"""The pieces of the reference document that are more than a field of the specification."""

from __future__ import annotations

from tools.codegen.model import Error, Packet, Spec
from tools.codegen.rights import sentence
from tools.codegen.types import Type


def hexadecimal(number: int) -> str:
    """A packet's id as the document shows it."""
    return f"0x{number:02x}"


def cell(text: str) -> str:
    """A text as it can stand in a table."""
    return text.replace("|", "\\|")


def linked(type_: Type) -> str:
    """A type, with links to the structs and enums in it."""
    if type_.kind in ("list", "optional"):
        return f"{type_.kind}&lt;{linked(type_.inner)}&gt;"
    if type_.kind in ("struct", "enum"):
        return f"[{type_.name}](#{type_.name.lower()})"
    return type_.name


_NUMBERS = {"used": "used", "kept": "that of the request before", "none": "-"}


def places(error: Error) -> str:
    """The packets and structs in which an error comes."""
    return ", ".join(f"[{name}](#{name.lower()})" for name in error.seen)


def number_fate(error: Error) -> str:
    """What becomes of the number of a request that is refused with an error."""
    return _NUMBERS[error.number]


def record_fate(error: Error) -> str:
    """Whether a refusal is recorded, and so to be confirmed."""
    if error.number == "none":
        return "-"
    recorded = "a takeover tells" if error.recorded == "in doubt" else error.recorded
    return f"{recorded}, unless {error.unless}" if error.unless else recorded


def transitions(spec: Spec) -> list[tuple[Packet, str]]:
    """The packets that change the connection's state, each with a state in which it may be sent."""
    changing = [packet for packet in spec.packets if packet.leads_to]
    return [(packet, state) for packet in changing for state in packet.allowed]


def route(packet: Packet) -> str:
    """Who sends a packet when, what answers it and what it asks for, in sentences."""
    if packet.sender == "server":
        return _route_from_server(packet)
    states = " or ".join(f"`{state}`" for state in packet.allowed)
    sentences = [f"Sent by the client in {states}; {_answer(packet)}."]
    if packet.leads_to:
        sentences.append(f"Its success leads to `{packet.leads_to}`.")
    if packet.mode == "FULL":
        sentences.append("A READ_ONLY client may not send it.")
    if packet.numbered:
        sentences.append("Numbered.")
    if packet.scope not in ("none", "own"):
        sentences.append(sentence(packet))
    return " ".join(sentences)


def _answer(packet: Packet) -> str:
    if packet.response is None:
        return "there is no answer, but an [Error](#error) to one that is not valid"
    return f"answered by [{packet.response}](#{packet.response.lower()}) or [Error](#error)"


def _route_from_server(packet: Packet) -> str:
    if not packet.unsolicited:
        return "Sent by the server as an answer."
    states = " or ".join(f"`{state}`" for state in packet.allowed)
    sentence = f"Sent by the server on its own, with packet id 0, in {states}."
    return f"{sentence} It leads to `{packet.leads_to}`." if packet.leads_to else sentence
