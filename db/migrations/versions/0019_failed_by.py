"""With which consumer a message failed, so that another one gets it."""

from alembic import op

revision = "0019"
down_revision = "0018"
rollout = "before"

FAILED_BY = """
ALTER TABLE telesto.{table} ADD COLUMN failed_by bigint;
COMMENT ON COLUMN telesto.{table}.failed_by IS
    'The consumer that it failed with last, if another one is to get it.';
"""

KEPT_UNTIL = """
ALTER TABLE telesto.{table} ADD COLUMN kept_until timestamptz;
COMMENT ON COLUMN telesto.{table}.kept_until IS
    'Until then it is kept for other consumers than failed_by, where there are some.';
"""

PARTITIONS = """
ALTER TABLE telesto.partitions ADD COLUMN failed_by bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN telesto.partitions.failed_by IS
    'The consumer that is not to get it, where there are others, since its first message failed there; 0 for '
    'none.';
COMMENT ON TABLE telesto.partitions IS
    'Who has a partition (0: nobody yet), under which lease (0: nothing is leased), and in which line it '
    'stands: 1 ready for consumer line_id, 2 ready for a new owner in queue line_id (it counts for an old '
    'one that is there until then), 3 in queue line_id until what is leased is answered, 4 until the time '
    'that place says in microseconds, 5 without messages, 6 as 3, then for a new owner.';
"""


def upgrade() -> None:
    """Add the columns."""
    for table in ("messages", "delayed_messages", "keyed_messages", "leases"):
        op.execute(FAILED_BY.format(table=table))
    for table in ("messages", "delayed_messages"):
        op.execute(KEPT_UNTIL.format(table=table))
    op.execute(PARTITIONS)
