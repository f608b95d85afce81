"""Topics: their messages, who subscribes to them and how far each subscription is."""

from alembic import op

revision = "0005"
down_revision = "0004"
rollout = "before"

SEQUENCES = """
CREATE SEQUENCE telesto.topic_ids CACHE 1;
CREATE SEQUENCE telesto.subscription_ids CACHE 1;
CREATE SEQUENCE telesto.staged_topic_ids CACHE 1;
"""

TOPICS = """
CREATE TABLE telesto.topics (
    topic_id   bigint      NOT NULL CONSTRAINT topics_pkey PRIMARY KEY,
    reclaimed  bigint      NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- A name may be longer than an index takes.
    name_hash  bytea       NOT NULL CONSTRAINT topics_name_unique UNIQUE,
    name       text        NOT NULL
                           CONSTRAINT topics_name_length CHECK (char_length(name) BETWEEN 1 AND 1024)
);
COMMENT ON TABLE telesto.topics IS
    'The topics, which are never deleted so that their numbers go on; reclaimed is the number up to which '
    'messages have been removed.';

CREATE TABLE telesto.topic_states (
    topic_id    bigint NOT NULL,
    version     bigint NOT NULL,
    last_number bigint NOT NULL,
    subscribers bigint NOT NULL,
    CONSTRAINT topic_states_pkey PRIMARY KEY (topic_id, version)
);
COMMENT ON TABLE telesto.topic_states IS
    'The last number of a topic and how many subscriptions are owed what is put. The newest version counts; '
    'it changes under the topic''s lock by inserting the next.';

CREATE TABLE telesto.topic_messages (
    topic_id        bigint      NOT NULL,
    number          bigint      NOT NULL,
    sender_id       bigint      NOT NULL,
    time_of_arrival timestamptz NOT NULL,
    body            bytea       NOT NULL,
    CONSTRAINT topic_messages_pkey PRIMARY KEY (topic_id, number)
);
COMMENT ON TABLE telesto.topic_messages IS
    'What some subscription is owed, once for all of them. Numbers have no gap; one index only.';

CREATE TABLE telesto.publisher_states (
    client_id bigint NOT NULL,
    topic_id  bigint NOT NULL,
    version   bigint NOT NULL,
    sequence  bigint NOT NULL,
    number    bigint NOT NULL,
    CONSTRAINT publisher_states_pkey PRIMARY KEY (client_id, topic_id, version)
);
COMMENT ON TABLE telesto.publisher_states IS
    'The last sequence of each publisher that numbers its own messages, and the number that it got. The '
    'newest version counts; it changes under the topic''s lock.';
"""

SUBSCRIPTIONS = """
CREATE TABLE telesto.subscriptions (
    client_id       bigint      NOT NULL,
    subscription_id bigint      NOT NULL,
    topic_id        bigint      NOT NULL,
    start_number    bigint      NOT NULL,
    max_behind      bigint      CONSTRAINT subscriptions_max_behind_positive CHECK (max_behind > 0),
    max_age_ms      bigint      CONSTRAINT subscriptions_max_age_positive CHECK (max_age_ms > 0),
    created_at      timestamptz NOT NULL DEFAULT now(),
    lagging_since   timestamptz,
    dropped_at      timestamptz,
    drop_lagging    boolean     NOT NULL,
    CONSTRAINT subscriptions_pkey PRIMARY KEY (client_id, subscription_id),
    CONSTRAINT subscriptions_topic_unique UNIQUE (client_id, topic_id)
);
CREATE INDEX subscriptions_topic ON telesto.subscriptions (topic_id);
CREATE INDEX subscriptions_limited ON telesto.subscriptions (subscription_id)
    WHERE max_behind IS NOT NULL OR max_age_ms IS NOT NULL;
COMMENT ON TABLE telesto.subscriptions IS
    'Who subscribes to what, and from behind which number on; one that was dropped is owed nothing more.';

CREATE TABLE telesto.positions (
    subscription_id bigint NOT NULL,
    version         bigint NOT NULL,
    position        bigint NOT NULL,
    CONSTRAINT positions_pkey PRIMARY KEY (subscription_id, version)
);
COMMENT ON TABLE telesto.positions IS
    'The number up to which a subscription is confirmed. The newest version counts; it changes under the '
    'subscription''s lock by inserting the next.';
"""

STAGING = """
CREATE TABLE telesto.staged_topic_messages (
    staged_id bigint      NOT NULL DEFAULT nextval('telesto.staged_topic_ids')
                          CONSTRAINT staged_topic_messages_pkey PRIMARY KEY,
    sender_id bigint      NOT NULL,
    staged_at timestamptz NOT NULL DEFAULT now(),
    staged_by xid8        NOT NULL DEFAULT pg_current_xact_id(),
    topic     text        NOT NULL,
    body      bytea       NOT NULL
);
COMMENT ON TABLE telesto.staged_topic_messages IS
    'Messages put to topics in an application''s own transaction; a middleware places them after its commit.';
"""

# As for the tables of queues: rows that live for milliseconds, rows rewritten now and then, and bodies.
BUSY_TABLES = ("topic_states", "topic_messages", "publisher_states", "positions", "staged_topic_messages")
BUSY_SETTINGS = """
ALTER TABLE telesto.{table} SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0.2,
    autovacuum_analyze_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0
);
"""
SMALL_TABLES = ("topics", "subscriptions")
SMALL_SETTINGS = """
ALTER TABLE telesto.{table} SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
"""
BODY_TABLES = ("topic_messages", "staged_topic_messages")
BODY_SETTINGS = """
ALTER TABLE telesto.{table} ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE telesto.{table} SET (
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_cost_delay = 0
);
"""


def upgrade() -> None:
    """Create what topics store."""
    for statements in (SEQUENCES, TOPICS, SUBSCRIPTIONS, STAGING):
        op.execute(statements)
    for tables, settings in (
        (BUSY_TABLES, BUSY_SETTINGS),
        (SMALL_TABLES, SMALL_SETTINGS),
        (BODY_TABLES, BODY_SETTINGS),
    ):
        for table in tables:
            op.execute(settings.format(table=table))
