"""Clients, queues, messages, exactly-once records and the middlewares' own tables."""

from alembic import op

revision = "0001"
down_revision = None
rollout = "before"

SEQUENCES = """
-- CACHE 1 everywhere: message ids are drawn under a queue's put lock and must rise across connections.
CREATE SEQUENCE telesto.client_ids CACHE 1;
CREATE SEQUENCE telesto.queue_ids CACHE 1;
CREATE SEQUENCE telesto.message_ids CACHE 1;
CREATE SEQUENCE telesto.staged_ids CACHE 1;
CREATE SEQUENCE telesto.middleware_ids CACHE 1;
"""

CLIENTS_AND_QUEUES = """
CREATE TABLE telesto.clients (
    client_id     bigint      NOT NULL CONSTRAINT clients_pkey PRIMARY KEY,
    session       bigint      NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT now(),
    mode          smallint    NOT NULL CONSTRAINT clients_mode_known CHECK (mode IN (1, 2)),
    name          text        NOT NULL CONSTRAINT clients_name_unique UNIQUE
                              CONSTRAINT clients_name_length CHECK (char_length(name) BETWEEN 1 AND 255),
    token         bytea       CONSTRAINT clients_token_length CHECK (octet_length(token) BETWEEN 1 AND 64)
);
COMMENT ON TABLE telesto.clients IS 'Registered clients and the session that each has now.';

CREATE TABLE telesto.queues (
    queue_id     bigint      NOT NULL CONSTRAINT queues_pkey PRIMARY KEY,
    max_messages bigint      CONSTRAINT queues_max_messages_positive CHECK (max_messages > 0),
    created_at   timestamptz NOT NULL DEFAULT now(),
    name         text        NOT NULL CONSTRAINT queues_name_unique UNIQUE
                             CONSTRAINT queues_name_length CHECK (char_length(name) BETWEEN 1 AND 255)
);
COMMENT ON TABLE telesto.queues IS 'The queues; max_messages NULL means unbounded.';

CREATE TABLE telesto.deleted_queues (
    queue_id    bigint      NOT NULL CONSTRAINT deleted_queues_pkey PRIMARY KEY,
    deleted_at  timestamptz NOT NULL DEFAULT now(),
    receiver_id bigint      NOT NULL DEFAULT -1,
    priority    smallint    NOT NULL DEFAULT 0,
    message_id  bigint      NOT NULL DEFAULT 0
);
COMMENT ON TABLE telesto.deleted_queues IS
    'Queues whose messages are still being removed, and the key up to which that is done.';
"""

MESSAGES = """
CREATE TABLE telesto.messages (
    queue_id        bigint      NOT NULL,
    receiver_id     bigint      NOT NULL CONSTRAINT messages_receiver_known CHECK (receiver_id >= 0),
    message_id      bigint      NOT NULL,
    sender_id       bigint      NOT NULL,
    context         bigint,
    time_of_arrival timestamptz NOT NULL,
    attempt         integer     NOT NULL,
    priority        smallint    NOT NULL CONSTRAINT messages_priority_range CHECK (priority BETWEEN 1 AND 10),
    redelivered     boolean     NOT NULL,
    body            bytea       NOT NULL,
    CONSTRAINT messages_pkey PRIMARY KEY (queue_id, receiver_id, priority, message_id)
);
COMMENT ON TABLE telesto.messages IS
    'What waits in the queues; receiver_id 0 is anyone. One index only: a second one misleads the planner.';

CREATE TABLE telesto.put_states (
    queue_id       bigint   NOT NULL,
    version        bigint   NOT NULL,
    total          bigint   NOT NULL,
    directed_total bigint   NOT NULL,
    last_id        bigint   NOT NULL,
    upper          bigint[] NOT NULL CONSTRAINT put_states_bounds CHECK (cardinality(upper) = 10),
    CONSTRAINT put_states_pkey PRIMARY KEY (queue_id, version)
);
COMMENT ON TABLE telesto.put_states IS
    'What was ever put into a queue, and per priority the id above which nothing was put. The newest version '
    'counts; it changes under the put lock by inserting the next.';

CREATE TABLE telesto.take_states (
    queue_id       bigint   NOT NULL,
    version        bigint   NOT NULL,
    total          bigint   NOT NULL,
    directed_total bigint   NOT NULL,
    lower          bigint[] NOT NULL CONSTRAINT take_states_bounds CHECK (cardinality(lower) = 10),
    CONSTRAINT take_states_pkey PRIMARY KEY (queue_id, version)
);
COMMENT ON TABLE telesto.take_states IS
    'What was ever taken out of a queue, and per priority the id below which nothing waits for anyone.';

CREATE TABLE telesto.receiver_states (
    queue_id    bigint   NOT NULL,
    receiver_id bigint   NOT NULL,
    version     bigint   NOT NULL,
    lower       bigint[] NOT NULL CONSTRAINT receiver_states_bounds CHECK (cardinality(lower) = 10),
    CONSTRAINT receiver_states_pkey PRIMARY KEY (queue_id, receiver_id, version)
);
COMMENT ON TABLE telesto.receiver_states IS
    'Per priority the id below which nothing waits for this receiver; may lag behind.';
"""

EXACTLY_ONCE = """
CREATE TABLE telesto.operations (
    client_id   bigint     NOT NULL,
    session     bigint     NOT NULL,
    number      bigint     NOT NULL,
    method_id   smallint   NOT NULL,
    related_ids bigint[]   NOT NULL,
    errors      smallint[],
    CONSTRAINT operations_pkey PRIMARY KEY (client_id, session, number)
);
COMMENT ON TABLE telesto.operations IS
    'Executed requests whose answer the client has not confirmed; errors NULL when every part succeeded.';

CREATE TABLE telesto.deliveries (
    client_id       bigint      NOT NULL,
    session         bigint      NOT NULL,
    number          bigint      NOT NULL,
    message_id      bigint      NOT NULL,
    queue_id        bigint      NOT NULL,
    receiver_id     bigint      NOT NULL,
    sender_id       bigint      NOT NULL,
    context         bigint,
    time_of_arrival timestamptz NOT NULL,
    handed_over_at  timestamptz NOT NULL,
    attempt         integer     NOT NULL,
    priority        smallint    NOT NULL,
    redelivered     boolean     NOT NULL,
    body            bytea       NOT NULL,
    CONSTRAINT deliveries_pkey PRIMARY KEY (client_id, session, number, message_id)
);
COMMENT ON TABLE telesto.deliveries IS 'Messages handed over and not confirmed.';

CREATE TABLE telesto.dead_letters (
    queue_id        bigint      NOT NULL,
    message_id      bigint      NOT NULL,
    receiver_id     bigint      NOT NULL,
    sender_id       bigint      NOT NULL,
    context         bigint,
    client_id       bigint      NOT NULL,
    session         bigint      NOT NULL,
    number          bigint      NOT NULL,
    time_of_arrival timestamptz NOT NULL,
    handed_over_at  timestamptz NOT NULL,
    died_at         timestamptz NOT NULL DEFAULT now(),
    attempt         integer     NOT NULL,
    priority        smallint    NOT NULL,
    redelivered     boolean     NOT NULL,
    reason          text        NOT NULL,
    body            bytea       NOT NULL,
    CONSTRAINT dead_letters_pkey PRIMARY KEY (queue_id, message_id)
);
COMMENT ON TABLE telesto.dead_letters IS 'Messages that left the service without being confirmed, and why.';
"""

STAGING = """
CREATE TABLE telesto.staged_messages (
    staged_id   bigint      NOT NULL DEFAULT nextval('telesto.staged_ids'),
    queue_id    bigint      NOT NULL,
    receiver_id bigint      NOT NULL CONSTRAINT staged_messages_receiver_known CHECK (receiver_id >= 0),
    sender_id   bigint      NOT NULL,
    context     bigint,
    staged_at   timestamptz NOT NULL DEFAULT now(),
    staged_by   xid8        NOT NULL DEFAULT pg_current_xact_id(),
    priority    smallint    NOT NULL
                            CONSTRAINT staged_messages_priority_range CHECK (priority BETWEEN 1 AND 10),
    body        bytea       NOT NULL,
    -- The queue first: the rows that wait for a full queue must not be walked through to find the others.
    CONSTRAINT staged_messages_pkey PRIMARY KEY (queue_id, staged_id)
);
COMMENT ON TABLE telesto.staged_messages IS
    'Messages put inside an application''s own transaction; a middleware places them after its commit.';
"""

MIDDLEWARES = """
CREATE TABLE telesto.middlewares (
    middleware_id bigint      NOT NULL CONSTRAINT middlewares_pkey PRIMARY KEY,
    started_at    timestamptz NOT NULL DEFAULT now(),
    heartbeat_at  timestamptz NOT NULL DEFAULT now(),
    address       text        NOT NULL,
    version       text        NOT NULL,
    pids          integer[]   NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
COMMENT ON TABLE telesto.middlewares IS
    'The running middlewares and the server processes that work for them.';

CREATE TABLE telesto.interests (
    queue_id      bigint NOT NULL,
    middleware_id bigint NOT NULL,
    CONSTRAINT interests_pkey PRIMARY KEY (queue_id, middleware_id)
);
COMMENT ON TABLE telesto.interests IS 'Which middlewares have a reader waiting at which queue.';

CREATE TABLE telesto.jobs (
    job      text        NOT NULL CONSTRAINT jobs_pkey PRIMARY KEY,
    holder   bigint      NOT NULL DEFAULT 0,
    deadline timestamptz NOT NULL DEFAULT '-infinity',
    position bigint      NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
COMMENT ON TABLE telesto.jobs IS
    'Single jobs: whoever holds the row until its deadline does it; position is where the last turn ended.';
"""

INSTALLATION = """
CREATE TABLE telesto.installation (
    only_row     boolean     NOT NULL DEFAULT true CONSTRAINT installation_pkey PRIMARY KEY
                             CONSTRAINT installation_single CHECK (only_row),
    incarnation  uuid        NOT NULL DEFAULT gen_random_uuid(),
    edition      integer     NOT NULL DEFAULT 0,
    serves       integer     NOT NULL DEFAULT 0,
    checksum     text        NOT NULL DEFAULT '',
    installed_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE telesto.installation IS
    'Which procedures are installed, and the identity of this database for exactly-once numbers.';
INSERT INTO telesto.installation DEFAULT VALUES;
"""

# Rows on the hot path live for milliseconds. Fixed thresholds, because a share of a table that is sometimes
# huge and sometimes empty says nothing; no delay, because dead entries are what slows the reads.
BUSY_TABLES = (
    "messages",
    "put_states",
    "take_states",
    "receiver_states",
    "operations",
    "deliveries",
    "staged_messages",
)
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

# Rows rewritten in place about once a second.
SMALL_TABLES = ("clients", "middlewares", "interests", "jobs")
SMALL_SETTINGS = """
ALTER TABLE telesto.{table} SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
"""

# Bodies move between these tables: stored apart when long, never compressed, so that a move costs no CPU.
BODY_TABLES = ("messages", "deliveries", "dead_letters", "staged_messages")
BODY_SETTINGS = """
ALTER TABLE telesto.{table} ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE telesto.{table} SET (
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_cost_delay = 0
);
"""


def upgrade() -> None:
    """Create everything that the first release stores."""
    for statements in (
        SEQUENCES,
        CLIENTS_AND_QUEUES,
        MESSAGES,
        EXACTLY_ONCE,
        STAGING,
        MIDDLEWARES,
        INSTALLATION,
    ):
        op.execute(statements)
    for tables, settings in (
        (BUSY_TABLES, BUSY_SETTINGS),
        (SMALL_TABLES, SMALL_SETTINGS),
        (BODY_TABLES, BODY_SETTINGS),
    ):
        for table in tables:
            op.execute(settings.format(table=table))
