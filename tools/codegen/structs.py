"""The precompiled structs that the generated codecs use: one for each run of fields of fixed size."""

from __future__ import annotations

from itertools import groupby

from tools.codegen.types import FIXED

_NAMES = {code: name.upper() for name, (code, _) in FIXED.items() if name != "bool"}


class StructTable:
    """Names a struct by what it holds, such as U64_U32 or I64X4_U8, and remembers which are in use."""

    def __init__(self) -> None:
        self.packs: dict[str, str] = {}
        self.unpacks: dict[str, str] = {}
        self.pack_lists: set[str] = set()
        self.unpack_lists: set[str] = set()

    def pack(self, codes: str) -> str:
        """Name of the function that packs a run."""
        name = f"_PACK_{_run_name(codes)}"
        self.packs[name] = codes
        return name

    def unpack(self, codes: str) -> str:
        """Name of the function that unpacks a run."""
        name = f"_UNPACK_{_run_name(codes)}"
        self.unpacks[name] = codes
        return name

    def pack_list(self, code: str) -> str:
        """Name of the table of functions that pack lists of one type."""
        self.pack_lists.add(code)
        return f"_PACK_{_NAMES[code]}S"

    def unpack_list(self, code: str) -> str:
        """Name of the table of functions that unpack lists of one type."""
        self.unpack_lists.add(code)
        return f"_UNPACK_{_NAMES[code]}S"

    @property
    def definitions(self) -> list[str]:
        """The lines that define all of them."""
        lines = [f'{name} = struct.Struct(">{codes}").pack' for name, codes in sorted(self.packs.items())]
        lines += [f'{_lists("_PACK", code)} = Packers("{code}")' for code in sorted(self.pack_lists)]
        lines += [
            f'{name} = struct.Struct(">{codes}").unpack_from' for name, codes in sorted(self.unpacks.items())
        ]
        lines += [f'{_lists("_UNPACK", code)} = Unpackers("{code}")' for code in sorted(self.unpack_lists)]
        return lines


def _lists(prefix: str, code: str) -> str:
    return f"{prefix}_{_NAMES[code]}S"


def _run_name(codes: str) -> str:
    groups = ((code, len(list(same))) for code, same in groupby(codes))
    return "_".join(_NAMES[code] + (f"X{count}" if count > 1 else "") for code, count in groups)


def size_of(codes: str) -> int:
    """Size in bytes of a run."""
    return sum(
        size for code in codes for name, (known, size) in FIXED.items() if known == code and name != "bool"
    )
