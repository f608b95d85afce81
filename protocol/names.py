"""Names of clients, queues and topics: which characters they may have. Clients and middlewares follow this.

`telesto.refuse_invisible` is the same rule in SQL, and docs/reference/protocol.md tells it to those who
write a client.
"""

from __future__ import annotations

import re

NAME_CHARACTERS_MAX = 255
TOPIC_CHARACTERS_MAX = 1_024

INVISIBLE = (
    (0x00, 0x1F),  # control characters
    (0x7F, 0x9F),
    (0xAD, 0xAD),  # soft hyphen
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),  # fillers
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),  # of no width; marks of direction
    (0x2028, 0x202E),  # separators of lines; embedded directions
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xD800, 0xDFFF),  # surrogates, which UTF-8 does not have
    (0xFE00, 0xFE0F),  # variants
    (0xFEFF, 0xFEFF),  # byte order mark
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),  # tags
)
"""First and last of each range of characters that no name has: two that look the same would be different.

They are Unicode's control characters, separators of lines and paragraphs, and what it says to ignore by
default. The list is fixed, so that the rule does not depend on a version of Unicode.
"""

_INVISIBLE = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in INVISIBLE) + "]")
# Keys are data of the application, so only what cannot be stored or printed is refused.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def invisible_character(name: str) -> str | None:
    """Returns a character of a name that no name may have, as U+202E; None when all are allowed."""
    found = _INVISIBLE.search(name)
    return None if found is None else f"U+{ord(found[0]):04X}"


def control_character(key: str) -> str | None:
    """Returns a character of a key that no key may have, as U+0000; None when all are allowed."""
    found = _CONTROL.search(key)
    return None if found is None else f"U+{ord(found[0]):04X}"
