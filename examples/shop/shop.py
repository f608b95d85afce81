"""The shop: an order and its message in one transaction of PostgreSQL. `uvicorn shop:app`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException
from psycopg import Connection
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

pool = ConnectionPool(
    os.environ["SHOP_DATABASE_URL"],
    connection_class=Connection[DictRow],
    kwargs={"row_factory": dict_row},
    open=False,
)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the connections, and make what the shop needs in the database."""
    with pool:
        with pool.connection() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS orders"
                " (order_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL,"
                " packages int NOT NULL DEFAULT 0)"
            )
            connection.execute("SELECT telesto.declare_queue('orders')")
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders")
def order(item: str) -> dict[str, Any]:
    """Take an order."""
    with pool.connection() as connection:  # one transaction, rolled back by an exception
        row = connection.execute("INSERT INTO orders (item) VALUES (%s) RETURNING *", (item,)).fetchone()
        assert row is not None
        connection.execute("SELECT telesto.put('orders', %s, sender => 'shop')", (Jsonb(row),))
        if item == "dynamite":
            raise HTTPException(400, "not sold here")
    return row


@app.get("/orders/{order_id}")
def show(order_id: int) -> dict[str, Any]:
    """Say what became of an order."""
    with pool.connection() as connection:
        row = connection.execute("SELECT * FROM orders WHERE order_id = %s", (order_id,)).fetchone()
    if row is None:
        raise HTTPException(404)
    return row
