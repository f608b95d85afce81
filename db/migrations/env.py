"""Alembic's entry point: runs the revisions on the connection that `install/migrate.py` hands over."""

from alembic import context
from sqlalchemy import Connection, text

SCHEMA = "telesto"


def ensure_schema(connection: Connection) -> None:
    """Create the schema, which must exist before Alembic's own version table.

    Asked for first, because CREATE SCHEMA IF NOT EXISTS needs the right to create even when there is
    nothing to do.
    """
    if connection.scalar(text("SELECT to_regnamespace(:name) IS NULL"), {"name": SCHEMA}):
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))


def run_revisions() -> None:
    """Apply the revisions in the transaction of the given connection."""
    connection: Connection = context.config.attributes["connection"]
    ensure_schema(connection)
    context.configure(
        connection=connection,
        version_table="schema_revision",
        version_table_schema=SCHEMA,
    )
    with context.begin_transaction():
        context.run_migrations()


run_revisions()
