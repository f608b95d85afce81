"""Consumers and the messages leased to them."""

from alembic import op

revision = "0006"
down_revision = "0005"
rollout = "before"

SEQUENCES = """
CREATE SEQUENCE telesto.consumer_ids CACHE 1;
CREATE SEQUENCE telesto.lease_ids CACHE 1;
"""

QUEUE_SETTINGS = """
ALTER TABLE telesto.queues
    ADD COLUMN lease_ms integer NOT NULL DEFAULT 30000
        CONSTRAINT queues_lease_ms_range CHECK (lease_ms BETWEEN 100 AND 86400000),
    ADD COLUMN max_attempts integer NOT NULL DEFAULT 5
        CONSTRAINT queues_max_attempts_range CHECK (max_attempts BETWEEN 1 AND 1000000);
COMMENT ON COLUMN telesto.queues.lease_ms IS 'How long a consumer may take for a message, in milliseconds.';
COMMENT ON COLUMN telesto.queues.max_attempts IS 'A message that failed so often is dead.';
"""

CONSUMERS = """
CREATE TABLE telesto.consumers (
    queue_id      bigint      NOT NULL,
    consumer_id   bigint      NOT NULL,
    client_id     bigint      NOT NULL,
    session       bigint      NOT NULL,
    middleware_id bigint      NOT NULL,
    epoch         bigint      NOT NULL,
    joined_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT consumers_pkey PRIMARY KEY (queue_id, consumer_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE telesto.consumers IS
    'Who consumes a queue, and through which middleware; epoch rises when a call of that one got lost.';

CREATE TABLE telesto.leases (
    consumer_id     bigint      NOT NULL,
    lease_id        bigint      NOT NULL,
    message_id      bigint      NOT NULL,
    queue_id        bigint      NOT NULL,
    client_id       bigint      NOT NULL,
    receiver_id     bigint      NOT NULL,
    sender_id       bigint      NOT NULL,
    context         bigint,
    time_of_arrival timestamptz NOT NULL,
    deadline        timestamptz NOT NULL,
    attempt         integer     NOT NULL,
    priority        smallint    NOT NULL,
    redelivered     boolean     NOT NULL,
    body            bytea       NOT NULL,
    CONSTRAINT leases_pkey PRIMARY KEY (consumer_id, lease_id, message_id)
);
CREATE INDEX leases_deadline ON telesto.leases (deadline);
COMMENT ON TABLE telesto.leases IS
    'Messages that consumers have and have not acknowledged; who deletes the row decides about it.';

CREATE TABLE telesto.lost_leases (
    middleware_id bigint NOT NULL,
    consumer_id   bigint NOT NULL,
    lease_id      bigint NOT NULL,
    message_id    bigint NOT NULL,
    CONSTRAINT lost_leases_pkey PRIMARY KEY (middleware_id, consumer_id, lease_id, message_id)
);
COMMENT ON TABLE telesto.lost_leases IS
    'Leases that ran out, until the middleware of the consumer has heard of it.';
"""

BUSY_SETTINGS = """
ALTER TABLE telesto.leases SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0.2,
    autovacuum_analyze_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE telesto.leases ALTER COLUMN body SET STORAGE EXTERNAL;
"""

SMALL_SETTINGS = """
ALTER TABLE telesto.{table} SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
"""


def upgrade() -> None:
    """Create the tables of the consumers."""
    for statements in (SEQUENCES, QUEUE_SETTINGS, CONSUMERS, BUSY_SETTINGS):
        op.execute(statements)
    for table in ("consumers", "lost_leases"):
        op.execute(SMALL_SETTINGS.format(table=table))
