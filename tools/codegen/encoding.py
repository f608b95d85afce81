"""Writes the code that encodes a packet: one struct for each run of fields of fixed size, one join."""

from __future__ import annotations

from dataclasses import dataclass

from tools.codegen.model import Field, Packet, Spec, Struct
from tools.codegen.naming import Locals, enum_table, snake
from tools.codegen.structs import StructTable, size_of
from tools.codegen.types import Type

#: Length, method id and packet id; the length does not count itself.
_HEADER = "IHI"
_LENGTH_SIZE = 4


def encoder_body(spec: Spec, table: StructTable, packet: Packet) -> list[str]:
    """The lines that encode ``self`` and return the frame."""
    writer = EncodeWriter(spec, table)
    writer.header(packet)
    writer.fields(packet, "self", "")
    writer.section(packet, "self", "")
    writer.line(f"return {writer.joined()}")
    return writer.lines


def list_writer_body(spec: Spec, table: StructTable, struct: Struct) -> list[str]:
    """The lines that encode a list of structs and return the parts and their size."""
    item = snake(struct.name)
    writer = EncodeWriter(spec, table)
    writer.names.take(item)
    writer.names.take(f"{item}s")
    writer.line("parts: list[bytes] = []")
    writer.line("")
    writer.line(f"for {item} in {item}s:")
    block = writer.block(sized=True)
    block.struct_value(struct, item, "")
    parts, constant, terms = block.finish()
    if terms:
        block.line(f"size += {' + '.join(terms)}")
    block.line(f"parts.append({parts[0]})" if len(parts) == 1 else f"parts += ({', '.join(parts)})")
    writer.lines[1] = f"size = {constant} * len({item}s)"
    writer.line("return parts, size")
    return writer.lines


@dataclass
class _Atom:
    """One field of a run: its struct codes and the expressions for them.

    An optional atom is the flag alone when ``optional`` is None at run time, else the flag and the value.
    """

    codes: str
    values: list[str]
    optional: str = ""


class EncodeWriter:
    """Keeps the lines that prepare values, the parts of the result, and the size of the parts."""

    def __init__(self, spec: Spec, table: StructTable, *, sized: bool = True) -> None:
        self.lines: list[str] = []
        self.names = Locals("packet_id")
        self._spec = spec
        self._table = table
        self._parts: list[str] = []
        self._constant = 0
        self._terms: list[str] = []
        self.run: list[_Atom] = []
        self._indent = ""
        self._has_header = False
        #: Whether anybody asks for the size of the parts.
        self._sized = sized

    def line(self, text: str) -> None:
        """Adds a line at the current depth."""
        self.lines.append(self._indent + text)

    def block(self, *, sized: bool) -> EncodeWriter:
        """A writer for an indented block that follows, with parts of its own."""
        writer = EncodeWriter(self._spec, self._table, sized=sized)
        writer.lines = self.lines
        writer.names = self.names
        writer._indent = self._indent + "    "
        return writer

    def header(self, packet: Packet) -> None:
        """Begins a frame; the length is filled in at the end."""
        self.run.append(_Atom(_HEADER, ["{length}", f"0x{packet.id:02x}", "packet_id"]))
        self._has_header = True

    def finish(self) -> tuple[list[str], int, list[str]]:
        """Packs what is pending; returns the parts, and their size as a constant and further terms."""
        self._flush()
        return self._parts, self._constant, self._terms

    def joined(self) -> str:
        """Packs what is pending; returns the expression that makes one byte string of all parts."""
        parts, constant, terms = self.finish()
        if self._has_header:
            length = " + ".join([str(constant - _LENGTH_SIZE), *terms])
            parts[0] = parts[0].replace("{length}", length)
        alone = len(parts) == 1 and not parts[0].startswith("*")
        return parts[0] if alone else f'b"".join(({", ".join(parts)},))'

    def fields(self, struct: Struct, source: str, owner: str) -> None:
        """Writes the fields that are always there."""
        for field in struct.fields:
            self.value(field.name, field.type, f"{source}.{field.name}", owner)

    def value(self, name: str, type_: Type, source: str, owner: str) -> None:
        """Writes a value; ``source`` is the expression that gives it."""
        if type_.is_fixed:
            self.run.append(_Atom(type_.code, [_number(type_, source)]))
        elif type_.kind in ("string", "bytes"):
            self._bytes(name, type_, source, owner)
        elif type_.kind == "struct":
            variable = self._local(name, source, owner)
            self.struct_value(self._spec.struct(type_.name), variable, variable)
        elif type_.kind == "list":
            self._list(name, type_.inner, source, owner)
        else:
            self._optional(name, type_.inner, source, owner)

    def struct_value(self, struct: Struct, source: str, owner: str) -> None:
        """Writes a struct."""
        self.fields(struct, source, owner)
        if struct.extensible:
            self.section(struct, source, owner)

    def section(self, struct: Struct, source: str, owner: str) -> None:
        """Writes a tagged section."""
        if not struct.tagged:
            self.run.append(_Atom("B", ["0"]))
            return
        tagged = self.names.take("tagged", owner)
        self.line(f"{tagged}: list[bytes] = []")
        for field in struct.tagged:
            self._tagged(field, tagged, source, owner)
        self.run.append(_Atom("B", [f"len({tagged})"]))
        part = self.names.take(f"{tagged}_part")
        self.line(f'{part} = b"".join({tagged})')
        self._part(part, f"len({part})")

    def _tagged(self, field: Field, tagged: str, source: str, owner: str) -> None:
        variable = self._local(field.name, f"{source}.{field.name}", owner)
        self.line(f"if {variable} is not None:")
        block = self.block(sized=False)
        block.value(field.name, field.type, variable, variable)
        content = block.joined()
        block.line(f"{tagged}.append(write_tagged({field.tag}, {content}))")

    def _local(self, name: str, source: str, owner: str) -> str:
        if source.isidentifier():
            return source
        variable = self.names.take(name, owner)
        self.line(f"{variable} = {source}")
        return variable

    def _part(self, part: str, size: str) -> None:
        self._flush()
        self._parts.append(part)
        self._terms.append(size)

    def _flush(self) -> None:
        """Packs the run of fixed fields that is pending."""
        run, self.run = self.run, []
        if not run:
            return
        optional = next((atom.optional for atom in run if atom.optional), "")
        if not optional:
            self._constant += size_of("".join(atom.codes for atom in run))
            self._parts.append(self._packed(run))
            return
        part = self.names.take(f"{optional}_part")
        absent = [_Atom("B", ["0"]) if atom.optional else atom for atom in run]
        self.line(f"{part} = {self._packed(absent)} if {optional} is None else {self._packed(run)}")
        self._parts.append(part)
        self._terms.append(f"len({part})")

    def _packed(self, run: list[_Atom]) -> str:
        codes = "".join(atom.codes for atom in run)
        values = [value for atom in run for value in atom.values]
        if all(code == "B" and value.isdigit() for code, value in zip(codes, values, strict=True)):
            return 'b"' + "".join(f"\\x{int(value):02x}" for value in values) + '"'
        return f"{self._table.pack(codes)}({', '.join(values)})"

    def _bytes(self, name: str, type_: Type, source: str, owner: str) -> None:
        encoded = f"{source}.encode()" if type_.kind == "string" else source
        variable = self.names.take(name, owner)
        self.line(f"{variable} = {encoded}")
        size = self.names.take(f"{variable}_size")
        self.line(f"{size} = len({variable})")
        self.run.append(_Atom("H" if type_.kind == "string" else "I", [size]))
        self._part(variable, size)

    def _list(self, name: str, item: Type, source: str, owner: str) -> None:
        variable = self._local(name, source, owner)
        count = self.names.take(f"{variable}_count")
        self.line(f"{count} = len({variable})")
        self.run.append(_Atom("I", [count]))
        if item.is_fixed:
            number = _number(item, "value")
            numbers = f"*{variable}" if number == "value" else f"*[{number} for value in {variable}]"
            size = f"{item.size} * {count}" if item.size > 1 else count
            self._part(f"{self._table.pack_list(item.code)}[{count}]({numbers})", size)
        elif item.kind == "struct":
            parts = self.names.take(f"{variable}_parts")
            size = self.names.take(f"{variable}_size") if self._sized else "_"
            self.line(f"{parts}, {size} = _write_{snake(item.name)}s({variable})")
            self._part(f"*{parts}", size)
        else:
            part = self.names.take(f"{variable}_part")
            writer = "write_strings" if item.kind == "string" else "write_byte_strings"
            self.line(f"{part} = {writer}({variable})")
            self._part(part, f"len({part})")

    def _optional(self, name: str, inner: Type, source: str, owner: str) -> None:
        variable = self._local(name, source, owner)
        if not inner.is_fixed:
            self._optional_part(name, inner, variable)
            return
        if any(atom.optional or atom.codes == _HEADER for atom in self.run):
            self._flush()
        self.run.append(_Atom("B" + inner.code, ["1", _number(inner, variable)], optional=variable))

    def _optional_part(self, name: str, inner: Type, variable: str) -> None:
        part = self.names.take(f"{variable}_part")
        self.line(f"if {variable} is None:")
        self.line(f'    {part} = b"\\x00"')
        self.line("else:")
        block = self.block(sized=False)
        block.run.append(_Atom("B", ["1"]))
        block.value(name, inner, variable, variable)
        block.line(f"{part} = {block.joined()}")
        self._part(part, f"len({part})")


def _number(type_: Type, value: str) -> str:
    """The number that stands for a value on the wire."""
    if type_.kind == "enum":
        return f"{enum_table(type_.name)}[{value}]"
    return f"1 if {value} else 0" if type_.name == "bool" else value
