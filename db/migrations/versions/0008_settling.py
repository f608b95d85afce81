"""Messages that become visible later or end at a time, and waiting before another attempt."""

from alembic import op

revision = "0008"
down_revision = "0007"
rollout = "before"

QUEUE_SETTINGS = """
ALTER TABLE telesto.queues
    ADD COLUMN backoff_ms integer NOT NULL DEFAULT 1000
        CONSTRAINT queues_backoff_ms_range CHECK (backoff_ms BETWEEN 0 AND 86400000),
    ADD COLUMN backoff_max_ms integer NOT NULL DEFAULT 60000
        CONSTRAINT queues_backoff_max_ms_range CHECK (backoff_max_ms BETWEEN 0 AND 86400000),
    ADD COLUMN expires_ms bigint
        CONSTRAINT queues_expires_ms_range CHECK (expires_ms BETWEEN 1 AND 315360000000),
    ADD COLUMN bury_expired boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN telesto.queues.backoff_ms IS
    'How long a message waits after its first failed attempt, in milliseconds; then twice as long.';
COMMENT ON COLUMN telesto.queues.backoff_max_ms IS
    'The longest wait after a failed attempt, in milliseconds.';
COMMENT ON COLUMN telesto.queues.expires_ms IS
    'How long a message may wait, in milliseconds, unless it says a shorter time itself; NULL for ever.';
COMMENT ON COLUMN telesto.queues.bury_expired IS 'Whether what has expired goes to the dead letters.';
"""

# The index holds the messages that expire and no others, and none of the columns that order a queue.
EXPIRY = """
ALTER TABLE telesto.messages ADD COLUMN expires_at timestamptz;
ALTER TABLE telesto.deliveries ADD COLUMN expires_at timestamptz;
ALTER TABLE telesto.leases ADD COLUMN expires_at timestamptz;
ALTER TABLE telesto.staged_messages
    ADD COLUMN delay_ms bigint
        CONSTRAINT staged_messages_delay_ms_range CHECK (delay_ms BETWEEN 0 AND 315360000000),
    ADD COLUMN expires_ms bigint
        CONSTRAINT staged_messages_expires_ms_range CHECK (expires_ms BETWEEN 1 AND 315360000000);
CREATE INDEX messages_expiry ON telesto.messages (expires_at) WHERE expires_at IS NOT NULL;
"""

DELAYED = """
CREATE TABLE telesto.delayed_messages (
    queue_id        bigint      NOT NULL,
    message_id      bigint      NOT NULL,
    receiver_id     bigint      NOT NULL,
    sender_id       bigint      NOT NULL,
    context         bigint,
    time_of_arrival timestamptz NOT NULL,
    due_at          timestamptz NOT NULL,
    expires_at      timestamptz,
    attempt         integer     NOT NULL,
    priority        smallint    NOT NULL,
    redelivered     boolean     NOT NULL,
    body            bytea       NOT NULL,
    CONSTRAINT delayed_messages_pkey PRIMARY KEY (queue_id, message_id)
);
CREATE INDEX delayed_messages_due ON telesto.delayed_messages (due_at);
COMMENT ON TABLE telesto.delayed_messages IS
    'Messages of queues that nobody can read before due_at; then they move to messages.';
ALTER TABLE telesto.delayed_messages SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE telesto.delayed_messages ALTER COLUMN body SET STORAGE EXTERNAL;
"""

HIDDEN = """
ALTER TABLE telesto.put_states ADD COLUMN hidden_total bigint NOT NULL DEFAULT 0;
ALTER TABLE telesto.take_states ADD COLUMN hidden_total bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN telesto.put_states.hidden_total IS
    'Those of total that were put elsewhere than into messages. directed_total is without them.';
COMMENT ON COLUMN telesto.take_states.hidden_total IS
    'How many of those have come to messages or were taken from elsewhere.';
"""


def upgrade() -> None:
    """Add the settings, the columns and the table of what is delayed."""
    for statements in (QUEUE_SETTINGS, EXPIRY, DELAYED, HIDDEN):
        op.execute(statements)
