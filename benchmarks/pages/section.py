"""The parts of a report: figures, their units, and their meaning."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

ROWS_MAX = 50
"""A section collects and shows at most this many rows, the largest, whatever the number of queues."""

CHANGE_LEAST = 0.0005
"""A smaller change is written as none."""

Value = str | int | float | datetime | None
Row = tuple[Value, ...]


class Kind(Enum):
    """The kind of a value, which determines how it is written."""

    TEXT = "text"
    COUNT = "count"
    BYTES = "bytes"
    SECONDS = "seconds"
    SHARE = "share"
    RATIO = "ratio"
    CHANGE = "change"
    MOMENT = "moment"

    @property
    def numeric(self) -> bool:
        """Whether values are aligned to the right."""
        return self not in (Kind.TEXT, Kind.MOMENT)


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its name in the figures, its title on the page, and the kind of its values.

    A field that is not `on_page` is in the figures only.
    """

    name: str
    title: str
    kind: Kind
    on_page: bool = True


def columns(kind: Kind, /, *names: str, **titles: str) -> tuple[Field, ...]:
    """Columns of one kind: `names` become titles with spaces, others have explicit `titles`."""
    every = {name: name.replace("_", " ") for name in names} | titles
    return tuple(Field(name, title, kind) for name, title in every.items())


@dataclass(frozen=True, slots=True)
class Figures:
    """A table of a report; `total` is the number of all rows, of which `rows` are the first."""

    key: str
    fields: tuple[Field, ...]
    rows: tuple[Row, ...]
    total: int

    def column(self, name: str) -> list[Value]:
        """All values of one column."""
        index = [field.name for field in self.fields].index(name)
        return [row[index] for row in self.rows]

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        names = [field.name for field in self.fields]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def where(self, **values: object) -> Figures:
        """The rows with these values."""
        rows = [row for row in self.dicts() if all(row[name] == value for name, value in values.items())]
        return figures_of(self.key, self.fields, (tuple(row.values()) for row in rows))

    def as_csv(self) -> str:
        """The values without formatting: seconds, bytes, counts; times in UTC."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(field.name for field in self.fields)
        writer.writerows([_plain(value) for value in row] for row in self.rows)
        return text.getvalue()


def figures_of(key: str, fields: Sequence[Field], rows: Iterable[Row]) -> Figures:
    """A complete table."""
    rows = tuple(rows)
    return Figures(key, tuple(fields), rows, len(rows))


def figures_from(key: str, declared: Mapping[Field, Callable[[Any], Value]], of: Iterable[Any]) -> Figures:
    """A table with a row for each item; each column is declared with a function for its value."""
    return figures_of(key, tuple(declared), (tuple(give(each) for give in declared.values()) for each in of))


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: a title, its meaning, a table, and optionally a plot (SVG) with a caption.

    A `folded` table opens by a click. `more` are figures that are not on the page, for further computation.
    Consecutive sections with the same `group` stand under its name.
    """

    title: str
    meaning: str
    figures: Figures
    plot: str | None = None
    caption: str = ""
    folded: bool = False
    more: tuple[Figures, ...] = ()
    group: str = ""


def collect(
    frame: DataFrame,
    key: str,
    fields: Sequence[Field],
    order: Sequence[Column | str],
    rows_max: int = ROWS_MAX,
) -> Figures:
    """Fetch the first rows of a frame, at most `rows_max`, and the number of rows."""
    kept = frame.select(*(field.name for field in fields))
    # Times are read as numbers, which do not depend on a time zone.
    for field in fields:
        if field.kind is Kind.MOMENT:
            kept = kept.withColumn(field.name, F.col(field.name).cast("double"))
    numbered = kept.orderBy(*order).limit(rows_max).collect()
    total = len(numbered) if len(numbered) < rows_max else kept.count()
    rows = tuple(
        tuple(_value(value, field.kind) for value, field in zip(row, fields, strict=True)) for row in numbered
    )
    return Figures(key, tuple(fields), rows, total)


def shown(value: Value, kind: Kind) -> str:
    """A value as the page and the terminal show it."""
    if value is None:
        return "–"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, str):
        return value
    match kind:
        case Kind.COUNT:
            return f"{value:,.0f}"
        case Kind.BYTES:
            return _scaled(value, 1000, ("B", "kB", "MB", "GB", "TB"))
        case Kind.SECONDS:
            return duration(float(value))
        case Kind.SHARE:
            return f"{value:.1%}"
        case Kind.CHANGE:
            return "0.0%" if abs(value) < CHANGE_LEAST else f"{value:+.1%}"
    return three_digits(value)


def three_digits(value: float) -> str:
    """A number with three digits; only very large or small ones are written as powers of ten."""
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e9 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """A time in a suitable unit."""
    for limit, factor, unit in (
        (1e-3, 1e6, "µs"),
        (1.0, 1e3, "ms"),
        (120.0, 1.0, "s"),
        (7200.0, 1 / 60, "min"),
    ):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds / 3600:.3g} h" if seconds < 172_800 else f"{seconds / 86_400:.3g} d"


def _scaled(value: float, step: int, units: Sequence[str]) -> str:
    for unit in units[:-1]:
        if abs(value) < step:
            return f"{three_digits(value)} {unit}"
        value /= step
    return f"{three_digits(value)} {units[-1]}"


def _value(value: Value, kind: Kind) -> Value:
    if kind is Kind.MOMENT and isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    return value


def _plain(value: Value) -> Value:
    return value.isoformat() if isinstance(value, datetime) else value
