"""An index by which a stream of the history finds the rows of its next transactions."""

from alembic import op

revision = "0014"
down_revision = "0013"
rollout = "before"

# Transactions write at the end, so a range of blocks holds those of a moment: a summary of each range is
# enough, and who writes does not wait for it. Without autosummarize a range would have none before the table
# is vacuumed, which partitions of the history never are. At most 256 ranges can ask for one in a round of
# autovacuum, a minute by default; ranges of 1 MiB are that many at some 25,000 messages per second.
INDEX = """
CREATE INDEX history_transaction_id ON telesto.history
    USING brin (transaction_id) WITH (pages_per_range = 128, autosummarize = on);
"""


def upgrade() -> None:
    """Create the index, for the partitions that there are too."""
    op.execute(INDEX)
