"""Keys of messages, by which a repeated put is found."""

from alembic import op

revision = "0004"
down_revision = "0003"
rollout = "before"

GENERATIONS = 3

QUEUES = """
ALTER TABLE telesto.queues ADD COLUMN dedup_window_ms bigint NOT NULL DEFAULT 300000
    CONSTRAINT queues_dedup_window_range CHECK (dedup_window_ms BETWEEN 1000 AND 604800000);
COMMENT ON TABLE telesto.queues IS
    'The queues and their settings; max_messages NULL means unbounded.';
"""

# One table per generation: the oldest is emptied as a whole, so that keys never have to be deleted.
KEYS = """
CREATE TABLE telesto.message_keys_{generation} (
    queue_id   bigint      NOT NULL,
    message_id bigint      NOT NULL,
    put_at     timestamptz NOT NULL,
    key        text        COLLATE "C" NOT NULL,
    CONSTRAINT message_keys_{generation}_pkey PRIMARY KEY (queue_id, key)
);
COMMENT ON TABLE telesto.message_keys_{generation} IS
    'Keys of messages put in every third generation, see key_generation.';
ALTER TABLE telesto.message_keys_{generation} SET (
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0
);
"""

GENERATION = """
CREATE TABLE telesto.key_generation (
    generation bigint      NOT NULL,
    began_at   timestamptz NOT NULL DEFAULT now(),
    single     boolean     NOT NULL DEFAULT true
                           CONSTRAINT key_generation_pkey PRIMARY KEY
                           CONSTRAINT key_generation_single CHECK (single)
);
COMMENT ON TABLE telesto.key_generation IS
    'The generation of message keys that is being written: its number modulo 3 names the table.';
INSERT INTO telesto.key_generation (generation) VALUES (0);
"""

STAGED = """
ALTER TABLE telesto.staged_messages ADD COLUMN dedup_key text COLLATE "C"
    CONSTRAINT staged_messages_key_length CHECK (char_length(dedup_key) BETWEEN 1 AND 255);
"""


def upgrade() -> None:
    """Add the tables of keys, the queues' windows and the key of a staged message."""
    op.execute(QUEUES)
    for generation in range(GENERATIONS):
        op.execute(KEYS.format(generation=generation))
    op.execute(GENERATION)
    op.execute(STAGED)
