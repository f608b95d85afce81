"""Hypothesis strategies for the fields of every packet, drawn from the specification."""

from typing import Any

from hypothesis import strategies as st

from wire_reference import REFERENCE, SIGNED, UNSIGNED, Reference

Fields = st.SearchStrategy[dict[str, Any]]


def packet_fields(name: str, reference: Reference = REFERENCE) -> Fields:
    return _fields(reference.fields(name), reference.tagged(name), reference)


def _fields(fields: list[Any], tagged: list[Any], reference: Reference) -> Fields:
    required = {field["name"]: value(field["type"], reference) for field in fields}
    optional = {field["name"]: value(field["type"], reference) for field in tagged}
    return st.fixed_dictionaries(required, optional=optional)


def value(type_: str, reference: Reference = REFERENCE) -> st.SearchStrategy[Any]:
    """Values of a type, in the form that they have in vectors."""
    if type_.startswith("list<"):
        return st.lists(value(type_[5:-1], reference), max_size=4) | _long_lists(type_[5:-1])
    if type_.startswith("optional<"):
        return st.none() | value(type_[9:-1], reference)
    if type_ in SIGNED:
        bits = 8 * SIGNED[type_]
        return _numbers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if type_ in UNSIGNED:
        return _numbers(0, (1 << (8 * UNSIGNED[type_])) - 1)
    if type_ == "bool":
        return st.booleans()
    if type_ == "string":
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    if type_ == "bytes":
        return st.binary(max_size=40).map(bytes.hex)
    if type_ in reference.enums:
        return st.sampled_from(sorted(reference.enums[type_]))
    entry = reference.structs[type_]
    return _fields(entry["fields"], entry.get("tagged", []), reference)


def _numbers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.sampled_from([low, high]) | st.integers(low, high)


def _long_lists(item: str) -> st.SearchStrategy[list[int]]:
    """Lists of numbers at and beyond the count up to which packing functions are kept."""
    if item not in SIGNED and item not in UNSIGNED:
        return st.nothing()
    return st.integers(60, 70).map(lambda count: list(range(count)))
