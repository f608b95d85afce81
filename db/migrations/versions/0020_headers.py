"""Headers of messages."""

from alembic import op

revision = "0020"
down_revision = "0019"
rollout = "before"

HEADERS = """
ALTER TABLE telesto.{table} ADD COLUMN headers jsonb;
COMMENT ON COLUMN telesto.{table}.headers IS 'Its headers, an object of texts; NULL without.';
"""


def upgrade() -> None:
    """Add the column to all tables of messages of queues."""
    for table in (
        "messages",
        "delayed_messages",
        "keyed_messages",
        "deliveries",
        "leases",
        "dead_letters",
        "staged_messages",
        "history",
    ):
        op.execute(HEADERS.format(table=table))
