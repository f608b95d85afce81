"""The type expressions of the specification, such as ``list<i64>``, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: struct format code and size in bytes of each type of fixed size.
FIXED: dict[str, tuple[str, int]] = {
    "bool": ("B", 1),
    "i8": ("b", 1),
    "i16": ("h", 2),
    "i32": ("i", 4),
    "i64": ("q", 8),
    "u8": ("B", 1),
    "u16": ("H", 2),
    "u32": ("I", 4),
    "u64": ("Q", 8),
}

_GENERIC = re.compile(r"(list|optional)<(.+)>")


@dataclass(frozen=True)
class Type:
    """A type as a field has it: ``kind`` says how it is encoded.

    kind is "fixed", "enum", "string", "bytes", "struct", "list" or "optional"; name is that of the fixed
    type, enum or struct; item is what a list or an optional holds.
    """

    kind: str
    name: str
    item: Type | None = None

    @property
    def code(self) -> str:
        """The struct format code of a type of fixed size (enums are u8)."""
        return FIXED[self.wire][0]

    @property
    def size(self) -> int:
        """The size in bytes of a type of fixed size."""
        return FIXED[self.wire][1]

    @property
    def wire(self) -> str:
        """The fixed type that is sent."""
        return "u8" if self.kind == "enum" else self.name

    @property
    def is_fixed(self) -> bool:
        """Whether every value has the same size."""
        return self.kind in ("fixed", "enum")

    @property
    def inner(self) -> Type:
        """What a list or an optional holds."""
        if self.item is None:
            raise TypeError(f"{self} holds nothing")
        return self.item

    @property
    def innermost(self) -> str:
        """The name of what a list or an optional holds, else its own."""
        return self.item.name if self.item else self.name

    def __str__(self) -> str:
        return f"{self.kind}<{self.item}>" if self.item else self.name


def parse(text: str, enums: set[str], structs: set[str]) -> Type:
    """Parses a type expression; raises ValueError saying what is wrong with it.

    Structs and enums must be defined before they are used, so the caller passes those seen so far.
    """
    if generic := _GENERIC.fullmatch(text):
        kind, inner = generic[1], parse(generic[2], enums, structs)
        if inner.kind in ("list", "optional"):
            raise ValueError(f"{text}: lists and optionals cannot hold one another; use a struct between")
        return Type(kind, text, inner)
    if text in FIXED:
        return Type("fixed", text)
    if text in ("string", "bytes"):
        return Type(text, text)
    if text in enums:
        return Type("enum", text)
    if text in structs:
        return Type("struct", text)
    raise ValueError(f"type {text!r} is unknown here (structs and enums must be defined before their use)")
