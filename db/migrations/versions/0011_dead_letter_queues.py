"""Queues to which the dead letters of others go, and where such a message comes from."""

from alembic import op

revision = "0011"
down_revision = "0010"
rollout = "before"

QUEUE_SETTINGS = """
ALTER TABLE telesto.queues
    ADD COLUMN dead_letter_queue bigint
        CONSTRAINT queues_dead_letter_queue_other
        CHECK (dead_letter_queue > 0 AND dead_letter_queue <> queue_id);
CREATE INDEX queues_dead_letter_queue ON telesto.queues (queue_id) WHERE dead_letter_queue IS NOT NULL;
COMMENT ON COLUMN telesto.queues.dead_letter_queue IS
    'The queue to which its dead letters go on; NULL: they stay among the dead letters. It may be gone.';
"""

ORIGIN = """
ALTER TABLE telesto.{table} ADD COLUMN origin jsonb;
COMMENT ON COLUMN telesto.{table}.origin IS
    'Of a dead letter that went on to this queue: queue_id, message_id, reason, attempt and died_at.';
"""


def upgrade() -> None:
    """Add the setting and the column."""
    op.execute(QUEUE_SETTINGS)
    for table in ("messages", "delayed_messages", "keyed_messages", "deliveries", "leases", "dead_letters"):
        op.execute(ORIGIN.format(table=table))
