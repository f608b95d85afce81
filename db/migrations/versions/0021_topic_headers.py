"""Headers of messages of topics."""

from alembic import op

revision = "0021"
down_revision = "0020"
rollout = "before"

HEADERS = """
ALTER TABLE telesto.{table} ADD COLUMN headers jsonb;
COMMENT ON COLUMN telesto.{table}.headers IS 'Its headers, an object of texts; NULL without.';
"""


def upgrade() -> None:
    """Add the column to the tables of messages of topics."""
    for table in ("topic_messages", "staged_topic_messages"):
        op.execute(HEADERS.format(table=table))
