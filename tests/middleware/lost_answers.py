"""Calls of which the answer is lost."""

from typing import Any

import pytest

from telesto.middleware.common.failures import LostError
from telesto.middleware.database.connection import DatabaseConnection


def lose_answer(monkeypatch: pytest.MonkeyPatch, marker: str) -> list[str]:
    """Loses the answer of the next call with a statement that holds this; returns where that is noted."""
    call = DatabaseConnection.call
    lost: list[str] = []

    async def call_and_lose(link: DatabaseConnection, sql: str, *arguments: Any) -> Any:
        rows = await call(link, sql, *arguments)
        if marker in sql and not lost:
            lost.append(sql)
            raise LostError("cut off", suspicious=False)
        return rows

    monkeypatch.setattr(DatabaseConnection, "call", call_and_lose)
    return lost
