"""What must hold among the rows of a schema."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Invariant:
    """A statement that must return no row; each row it returns is one problem's text."""

    subject: str
    sql: str
