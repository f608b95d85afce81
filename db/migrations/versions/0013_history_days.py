"""Partitions of the history that are made and not yet noted."""

from alembic import op

revision = "0013"
down_revision = "0012"
rollout = "before"

# All that are there when this is applied are in the calendar.
STATE = """
ALTER TABLE telesto.history_partitions
    ADD COLUMN state text NOT NULL DEFAULT 'open'
        CONSTRAINT history_partitions_state_known CHECK (state IN ('made', 'open', 'closed'));
ALTER TABLE telesto.history_partitions ALTER COLUMN state SET DEFAULT 'made';
COMMENT ON COLUMN telesto.history_partitions.state IS
    'made: nobody is sent there yet; open: its day is in history_calendar; closed: nobody is sent there now.';
COMMENT ON TABLE telesto.history_calendar IS
    'The days of the open history_partitions in one row, for whatever ends messages has to know them.';
"""


def upgrade() -> None:
    """Add the column."""
    op.execute(STATE)
