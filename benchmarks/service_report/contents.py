"""What a report of a service is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Contents:
    """The tables of one moment.

    Attributes:
        tables: by name, as `tables.TABLES` describes them.
        present: all messages that are not over.
        taken_at: the moment, by the server's clock.
        where: the server, for people.
    """

    tables: Mapping[str, DataFrame]
    present: DataFrame
    taken_at: datetime
    where: str
