"""Consumers that are slow, fail or are paused."""

from alembic import op

revision = "0012"
down_revision = "0011"
rollout = "before"

QUEUE_SETTINGS = """
ALTER TABLE telesto.queues
    ADD COLUMN late_after_ms integer
        CONSTRAINT queues_late_after_ms_range CHECK (late_after_ms BETWEEN 1 AND 86400000),
    ADD COLUMN late_limit integer NOT NULL DEFAULT 3
        CONSTRAINT queues_late_limit_range CHECK (late_limit BETWEEN 0 AND 1000),
    ADD COLUMN late_window_ms integer NOT NULL DEFAULT 60000
        CONSTRAINT queues_late_window_ms_range CHECK (late_window_ms BETWEEN 100 AND 86400000),
    ADD COLUMN fail_limit integer NOT NULL DEFAULT 3
        CONSTRAINT queues_fail_limit_range CHECK (fail_limit BETWEEN 0 AND 1000);
COMMENT ON COLUMN telesto.queues.late_after_ms IS
    'An answer of a consumer that takes longer is late, in milliseconds; NULL for a third of lease_ms.';
COMMENT ON COLUMN telesto.queues.late_limit IS
    'A consumer with so many late answers within late_window_ms loses its partitions; 0 for never.';
COMMENT ON COLUMN telesto.queues.late_window_ms IS
    'In milliseconds; for so long it is given no partitions, too.';
COMMENT ON COLUMN telesto.queues.fail_limit IS
    'A consumer that fails so often in a row has to join again; 0 for never.';
"""

CONSUMERS = """
ALTER TABLE telesto.consumers
    ADD COLUMN slow_until timestamptz,
    ADD COLUMN paused boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN telesto.consumers.slow_until IS
    'Until then others have its partitions, if there are others.';
COMMENT ON COLUMN telesto.consumers.paused IS 'It has no credit and is given no partitions.';
"""


def upgrade() -> None:
    """Add the settings and the columns."""
    op.execute(QUEUE_SETTINGS)
    op.execute(CONSUMERS)
