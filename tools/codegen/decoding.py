"""Writes the code that decodes a packet: flat, one struct for each run of fields of fixed size."""

from __future__ import annotations

from tools.codegen.model import Field, Packet, Spec, Struct
from tools.codegen.naming import Locals, enum_table, python_type, snake
from tools.codegen.structs import StructTable, size_of
from tools.codegen.types import Type


def decoder_body(spec: Spec, table: StructTable, packet: Packet) -> list[str]:
    """The lines that decode a packet from ``payload`` and return it."""
    writer = DecodeWriter(spec, table)
    values = writer.fields(packet, "")
    values += writer.last_section(packet)
    writer.line(f"return cls({', '.join(values)})")
    return writer.lines


def list_reader_body(spec: Spec, table: StructTable, struct: Struct) -> list[str]:
    """The lines that read ``count`` structs at ``at`` and return them and the position after."""
    writer = DecodeWriter(spec, table, dynamic=True)
    items = f"{snake(struct.name)}s"
    writer.names.take(items)
    writer.names.take("count")
    writer.line(f"if {size_min(spec, Type('struct', struct.name))} * count > len(payload) - at:")
    writer.line('    raise ValueError("count")')
    writer.line(f"{items} = []")
    writer.line("for _ in range(count):")
    with_values = writer.block()
    value = with_values.struct_value(struct, "")
    with_values.settle()
    with_values.line(f"{items}.append({value})")
    writer.line(f"return {items}, at")
    return writer.lines


def size_min(spec: Spec, type_: Type) -> int:
    """The least number of bytes that a value of this type takes."""
    if type_.is_fixed:
        return type_.size
    if type_.kind == "struct":
        struct = spec.struct(type_.name)
        return sum(size_min(spec, field.type) for field in struct.fields) + struct.extensible
    return {"optional": 1, "string": 2, "bytes": 4, "list": 4}[type_.kind]


class DecodeWriter:
    """Keeps the lines written so far, the run of fixed fields that is pending, and the place in the payload.

    The place is the variable ``at`` (or zero before that is set) plus a constant known here, so that moving
    over fixed fields costs nothing at run time.
    """

    def __init__(
        self, spec: Spec, table: StructTable, data: str = "payload", at: str = "at", *, dynamic: bool = False
    ) -> None:
        self.lines: list[str] = []
        self.names = Locals()
        self._spec = spec
        self._table = table
        self._data = data
        self._at = at
        self._dynamic = dynamic
        self._offset = 0
        self._run: list[tuple[str, str]] = []
        self._indent = ""

    def line(self, text: str) -> None:
        """Adds a line at the current depth."""
        self.lines.append(self._indent + text)

    def block(self, data: str = "", at: str = "") -> DecodeWriter:
        """A writer for an indented block that follows; with ``data`` it reads that, from its beginning."""
        writer = DecodeWriter(
            self._spec, self._table, data or self._data, at or self._at, dynamic=not data and self._dynamic
        )
        writer.lines = self.lines
        writer.names = self.names
        writer._indent = self._indent + "    "
        return writer

    @property
    def position(self) -> str:
        """The current position as an expression."""
        if not self._dynamic:
            return str(self._offset)
        return f"{self._at} + {self._offset}" if self._offset else self._at

    def settle(self) -> None:
        """Makes the variable the exact position."""
        self.flush()
        self._advance("")

    def fields(self, struct: Struct, owner: str) -> list[str]:
        """Reads the fields that are always there; returns their values as expressions."""
        return [self.value(field.name, field.type, owner) for field in struct.fields]

    def value(self, name: str, type_: Type, owner: str) -> str:
        """Reads a value; returns it as an expression."""
        if type_.is_fixed:
            return self._fixed(name, type_, owner)
        if type_.kind in ("string", "bytes"):
            return self._bytes(name, type_, owner)
        if type_.kind == "struct":
            return self.struct_value(self._spec.struct(type_.name), f"{owner}_{name}" if owner else name)
        if type_.kind == "list":
            return self._list(name, type_.inner, owner)
        return self._optional(name, type_, owner)

    def struct_value(self, struct: Struct, owner: str) -> str:
        """Reads a struct; returns the expression that makes it."""
        values = self.fields(struct, owner)
        if struct.extensible:
            values += self._tagged_section(struct, owner)
        return f"{struct.name}({', '.join(values)})"

    def last_section(self, packet: Packet) -> list[str]:
        """Reads the packet's own tagged section and checks that the payload ends there."""
        if packet.tagged:
            values = self._tagged_section(packet, "")
            self.line(f"if len({self._data}) != {self.position}:")
            self.line('    raise ValueError("end")')
            return values
        tags = self._pending("B", "tags", "")
        self.flush()
        self.line(f"if {tags} or len({self._data}) != {self.position}:")
        self.line(f"    check_end({self._data}, {self.position}, {tags})")
        return []

    def _pending(self, code: str, name: str, owner: str) -> str:
        variable = self.names.take(name, owner)
        self._run.append((code, variable))
        return variable

    def flush(self) -> None:
        """Reads the run of fixed fields that is pending."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        variables = ", ".join(variable for _, variable in self._run)
        if codes == "B":
            self.line(f"{variables} = {self._data}[{self.position}]")
        else:
            place = f"{self._data}, {self.position}" if self.position != "0" else self._data
            comma = "," if len(codes) == 1 else ""
            target = f"({variables}{comma})" if comma else variables
            self.line(f"{target} = {self._table.unpack(codes)}({place})")
        self._offset += size_of(codes)
        self._run = []

    def _advance(self, size: str) -> None:
        """Moves the variable over what is known by a constant and what is known by an expression."""
        terms = [term for term in (str(self._offset) if self._offset else "", size) if term]
        if not self._dynamic:
            self.line(f"{self._at} = {' + '.join(terms) or 0}")
        elif terms:
            self.line(f"{self._at} += {' + '.join(terms)}")
        self._dynamic, self._offset = True, 0

    def _fixed(self, name: str, type_: Type, owner: str) -> str:
        return _converted(type_, self._pending(type_.code, name, owner))

    def _bytes(self, name: str, type_: Type, owner: str) -> str:
        variable = self.names.take(name, owner)
        size = self._pending("H" if type_.kind == "string" else "I", f"{variable}_size", "")
        self.flush()
        piece = f"{self._data}[{self.position} : {self.position} + {size}]"
        self.line(f"{variable} = " + (f'str({piece}, "utf-8")' if type_.kind == "string" else piece))
        self._advance(size)
        return variable

    def _list(self, name: str, item: Type, owner: str) -> str:
        variable = self.names.take(name, owner)
        count = self._pending("I", f"{variable}_count", "")
        self.flush()
        if item.is_fixed:
            numbers = f"{self._table.unpack_list(item.code)}[{count}]({self._data}, {self.position})"
            converted = _converted(item, "value")
            listed = f"[{converted} for value in {numbers}]" if converted != "value" else f"list({numbers})"
            self.line(f"{variable} = {listed}")
            self._advance(f"{item.size} * {count}" if item.size > 1 else count)
            return variable
        readers = {"string": "read_strings", "bytes": "read_byte_strings"}
        reader = readers.get(item.kind, f"_read_{snake(item.name)}s")
        self.line(f"{variable}, {self._at} = {reader}({self._data}, {self.position}, {count})")
        self._dynamic, self._offset = True, 0
        return variable

    def _optional(self, name: str, type_: Type, owner: str) -> str:
        variable = self.names.take(name, owner)
        flag = self._pending("B", f"{variable}_flag", "")
        self.flush()
        if not self._dynamic or not type_.inner.is_fixed:
            self._advance("")
        self.line(f"{variable}: {python_type(type_)} = None")
        self.line(f"if {flag}:")
        self.line(f"    if {flag} != 1:")
        self.line('        raise ValueError("flag")')
        if type_.inner.is_fixed:
            self._optional_number(variable, type_.inner)
        else:
            block = self.block()
            value = block.value(name, type_.inner, variable)
            block.settle()
            block.line(f"{variable} = {value}")
        return variable

    def _optional_number(self, variable: str, type_: Type) -> None:
        """Reads the number in a block; the offset that is pending stays pending on both ways."""
        if type_.code == "B":
            self.line(f"    {variable} = {_converted(type_, f'{self._data}[{self.position}]')}")
        else:
            self.line(f"    ({variable},) = {self._table.unpack(type_.code)}({self._data}, {self.position})")
        self.line(f"    {self._at} += {type_.size}")

    def _tagged_section(self, struct: Struct, owner: str) -> list[str]:
        tags = self._pending("B", f"{owner}_tags" if owner else "tags", "")
        self.settle()
        variables = [self._declare(field, owner) for field in struct.tagged]
        self.line(f"if {tags}:")
        if not struct.tagged:
            self.line(f"    {self._at} = skip_tags({self._data}, {self._at}, {tags})")
            return []
        known = f"_{snake(struct.name).upper()}_TAGS"
        found, content, place = (self.names.take(name, owner) for name in ("found", "content", "place"))
        self.line(f"    {found}, {self._at} = read_tags({self._data}, {self._at}, {tags}, {known})")
        for field, variable in zip(struct.tagged, variables, strict=True):
            self.line(f"    {content} = {found}.get({field.tag})")
            self.line(f"    if {content} is not None:")
            self._tagged_value(field, variable, content, place)
        names = (field.name for field in struct.tagged)
        return [f"{name}={variable}" for name, variable in zip(names, variables, strict=True)]

    def _declare(self, field: Field, owner: str) -> str:
        variable = self.names.take(field.name, owner)
        self.line(f"{variable}: {python_type(field.type)} | None = None")
        return variable

    def _tagged_value(self, field: Field, variable: str, content: str, place: str) -> None:
        block = self.block().block(content, place)
        value = block.value(field.name, field.type, variable)
        block.flush()
        block.line(f"if len({content}) != {block.position}:")
        block.line('    raise ValueError("size")')
        block.line(f"{variable} = {value}")


def _converted(type_: Type, number: str) -> str:
    """The value that a number from the wire stands for; looking up one that is not allowed fails."""
    if type_.kind == "enum":
        return f"{enum_table(type_.name)}[{number}]"
    return f"BOOLS[{number}]" if type_.name == "bool" else number
