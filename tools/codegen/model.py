"""The specification as values, checked by tools.codegen.loading."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.codegen.types import Type

#: The struct whose tagged fields are the settings of a queue.
QUEUE_SETTINGS = "QueueSettings"


@dataclass(frozen=True)
class Field:
    """A field of a struct or packet; ``tag`` is 0 for a field that is always there."""

    name: str
    type: Type
    doc: str
    tag: int = 0


@dataclass(frozen=True)
class QueueSetting(Field):
    """A setting of a queue: a tagged field of the struct QueueSettings.

    Attributes:
        doc: what it does, with its range and what holds unless it is given.
        meaning: what it does, alone.
        help: what it does, as the command line says it.
        least, most: the range of a number; that of a flag is 0 to 1.
        open: there is no most but that of the type.
        unit: "ms", "days", "queue" for the id of one, "" for a count and what is no number.
        default: what a queue has unless it is given, an enum's value by its name; None when it is without it.
        without: what holds for a queue that is without it; "" for a setting that every queue has.
        off: the option of the command line that turns a flag off.
    """

    meaning: str = ""
    help: str = ""
    least: int = 0
    most: int = 1
    open: bool = False
    unit: str = ""
    default: int | str | None = None
    without: str = ""
    off: str = ""

    @property
    def values(self) -> str:
        """What a number may be, in words; nothing for what its type says."""
        if self.type.kind == "enum" or self.type.name == "bool":
            return ""
        if self.unit == "queue":
            return "the id of a queue"
        bounds = f"{self.least:,} or more" if self.open else f"{self.least:,} to {self.most:,}"
        return {"ms": "milliseconds, ", "days": "days, "}.get(self.unit, "") + bounds

    @property
    def usual(self) -> str:
        """What holds unless it is given, in words."""
        if isinstance(self.default, bool):
            return "yes" if self.default else "no"
        return self.without or (f"{self.default:,}" if isinstance(self.default, int) else str(self.default))

    @property
    def client_name(self) -> str:
        """Its name in the client and on the command line, where durations are seconds."""
        return self.name.removesuffix("_ms") if self.unit == "ms" else self.name

    @property
    def client_values(self) -> str:
        """What the client takes for it, in words; nothing for what its type says."""
        if self.unit == "ms":
            return f"seconds, {in_seconds(self.least)} to {in_seconds(self.most)}"
        return "a queue, its name or its id" if self.unit == "queue" else self.values

    @property
    def client_usual(self) -> str:
        """What holds unless it is given, in words and in seconds."""
        if isinstance(self.default, bool):
            return str(self.default)
        return in_seconds(self.default) if self.unit == "ms" and type(self.default) is int else self.usual


def in_seconds(milliseconds: int) -> str:
    """Milliseconds in seconds, in figures."""
    return f"{milliseconds // 1000:,}" if milliseconds % 1000 == 0 else f"{milliseconds / 1000:,}"


@dataclass(frozen=True)
class Value:
    """A value of an enum."""

    name: str
    value: int
    doc: str


@dataclass(frozen=True)
class EnumType:
    """An enum; sent as u8."""

    name: str
    doc: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Struct:
    """A named group of fields; an extensible one ends in a tagged section."""

    name: str
    doc: str
    fields: tuple[Field, ...]
    tagged: tuple[Field, ...] = ()
    extensible: bool = False

    @property
    def all_fields(self) -> tuple[Field, ...]:
        """The fields that are always there and the tagged ones."""
        return (*self.fields, *self.tagged)


@dataclass(frozen=True)
class NeededRight:
    """A right that a request needs.

    Attributes:
        names: one of these rights is enough.
        field: the path of the field that says on what.
        what: the kind of it: QUEUE, NAME (of a queue), TOPIC, SUBSCRIPTION or CLIENT.
        expression: the Python expression of all that the field has, for a variable `packet`.
        condition: the path of a field that must be given for the right to be needed; empty for none.
    """

    names: tuple[str, ...]
    field: str
    what: str
    expression: str
    condition: str = ""


@dataclass(frozen=True)
class Packet(Struct):
    """A packet; ``fields`` begins with number and confirmed when it is numbered."""

    id: int = 0
    sender: str = ""
    response: str | None = None
    allowed: tuple[str, ...] = ()
    leads_to: str | None = None
    numbered: bool = False
    mode: str | None = None
    unsolicited: bool = False
    #: What its OperationResult tells; of a numbered request.
    record: str = ""
    answered: bool = True
    #: It is encoded and decoded by its layout, not by a codec of its own.
    rare: bool = False
    #: The rights that a user needs for it; none for one that has a scope instead.
    rights: tuple[NeededRight, ...] = ()
    #: "none", "own", "visible" or "monitor" of a request that is about no name.
    scope: str = ""

    @property
    def is_request(self) -> bool:
        """Whether a client sends it."""
        return self.sender == "client"


@dataclass(frozen=True)
class State:
    """A state of a connection."""

    name: str
    doc: str


@dataclass(frozen=True)
class Error:
    """An error code.

    Attributes:
        seen: the packets and structs that carry it; none for one that is not sent yet.
        number: what becomes of the number of a request that it refuses: "used", "kept" by the request that
            had it before, or "none" when it refuses no numbered request.
        recorded: whether the refusal is recorded: "yes", "no", or "in doubt".
        unless: when it is the other way.
    """

    code: int
    name: str
    error_class: str
    exception: str
    doc: str
    seen: tuple[str, ...] = ()
    number: str = "none"
    recorded: str = "no"
    unless: str = ""

    @property
    def sqlstate(self) -> str:
        """What the procedures raise for it."""
        return f"TL{self.code:03d}"


@dataclass(frozen=True)
class Spec:
    """The whole specification."""

    constants: dict[str, int]
    states: tuple[State, ...]
    enums: tuple[EnumType, ...]
    structs: tuple[Struct, ...]
    packets: tuple[Packet, ...]
    errors: tuple[Error, ...]
    by_name: dict[str, Struct] = field(default_factory=dict)

    @property
    def queue_settings(self) -> list[QueueSetting]:
        """The settings of a queue; none in a specification without queues."""
        struct = self.by_name.get(QUEUE_SETTINGS)
        return [field for field in struct.tagged if isinstance(field, QueueSetting)] if struct else []

    @property
    def requests(self) -> list[Packet]:
        """The packets that clients send."""
        return [packet for packet in self.packets if packet.is_request]

    def struct(self, name: str) -> Struct:
        """The struct of this name."""
        return self.by_name[name]
