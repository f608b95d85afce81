"""How the demonstration puts a line into a message: its number, a tab, the line as it is."""

from __future__ import annotations


def to_body(number: int, line: bytes) -> bytes:
    """The body of the message that carries line `number`."""
    return b"%d\t%s" % (number, line)


def from_body(body: bytes) -> tuple[int, bytes]:
    """The number of the line in a body, and the line. Raises ValueError for a body of other origin."""
    number, tab, line = body.partition(b"\t")
    if not tab or not number.isdigit():
        raise ValueError(f"not the body of a line: {body[:40]!r}")
    return int(number), line
