"""Consumers that have ended while an application's transaction held some of their leases."""

from alembic import op

revision = "0024"
down_revision = "0023"
rollout = "before"

ENDED_CONSUMERS = """
CREATE TABLE telesto.ended_consumers (
    queue_id    bigint  NOT NULL,
    consumer_id bigint  NOT NULL,
    counted     boolean NOT NULL,
    CONSTRAINT ended_consumers_pkey PRIMARY KEY (queue_id, consumer_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE telesto.ended_consumers IS
    'Consumers that have ended and still have leases, which an application''s transaction held then.';
"""


def upgrade() -> None:
    """Create the table."""
    op.execute(ENDED_CONSUMERS)
