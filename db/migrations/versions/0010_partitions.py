"""Messages with partition keys, and who has which partition."""

from alembic import op

revision = "0010"
down_revision = "0009"
rollout = "before"

KEYED = """
CREATE TABLE telesto.keyed_messages (
    queue_id        bigint      NOT NULL,
    sender_id       bigint      NOT NULL,
    message_id      bigint      NOT NULL,
    context         bigint,
    time_of_arrival timestamptz NOT NULL,
    due_at          timestamptz,
    expires_at      timestamptz,
    attempt         integer     NOT NULL,
    priority        smallint    NOT NULL,
    history         smallint    NOT NULL DEFAULT 0,
    redelivered     boolean     NOT NULL,
    put_through     integer,
    partition_key   text        COLLATE "C" NOT NULL,
    body            bytea       NOT NULL,
    CONSTRAINT keyed_messages_pkey PRIMARY KEY (queue_id, sender_id, partition_key, message_id)
);
CREATE INDEX keyed_messages_expiry ON telesto.keyed_messages (expires_at) WHERE expires_at IS NOT NULL;
COMMENT ON TABLE telesto.keyed_messages IS
    'Messages with a partition key that wait, partition by partition; only consumers get them.';
ALTER TABLE telesto.keyed_messages ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE telesto.partition_arrivals (
    queue_id      bigint NOT NULL,
    message_id    bigint NOT NULL,
    sender_id     bigint NOT NULL,
    partition_key text   COLLATE "C" NOT NULL,
    CONSTRAINT partition_arrivals_pkey PRIMARY KEY (queue_id, message_id)
);
COMMENT ON TABLE telesto.partition_arrivals IS
    'Partitions that a put has reached, by the first message that it put there, until a claim sees to it.';
"""

# One row is live for each partition. It is replaced, never updated, so each of the two indexes ends where the
# newest stands: one finds a partition by its key, the other the partitions of a line in their order.
PARTITIONS = """
CREATE SEQUENCE telesto.partition_versions CACHE 1;
CREATE TABLE telesto.partitions (
    queue_id      bigint   NOT NULL,
    sender_id     bigint   NOT NULL,
    version       bigint   NOT NULL DEFAULT nextval('telesto.partition_versions'),
    owner_id      bigint   NOT NULL,
    lease_id      bigint   NOT NULL,
    next_id       bigint   NOT NULL,
    line_id       bigint   NOT NULL,
    place         bigint   NOT NULL DEFAULT currval('telesto.partition_versions'),
    line          smallint NOT NULL CONSTRAINT partitions_line_known CHECK (line BETWEEN 1 AND 6),
    partition_key text     COLLATE "C" NOT NULL,
    CONSTRAINT partitions_pkey PRIMARY KEY (queue_id, sender_id, partition_key, version)
);
CREATE INDEX partitions_line ON telesto.partitions (line, line_id, place);
COMMENT ON TABLE telesto.partitions IS
    'Who has a partition (0: nobody yet), under which lease (0: nothing is leased), and in which line it '
    'stands: 1 ready for consumer line_id, 2 ready for a new owner in queue line_id, 3 in queue line_id '
    'until what is leased is answered, 4 until the time that place says in microseconds, 5 without '
    'messages, 6 as 3, then for a new owner.';

CREATE TABLE telesto.partition_states (
    queue_id      bigint    NOT NULL,
    version       bigint    NOT NULL,
    arrived_id    bigint    NOT NULL,
    unowned_from  bigint    NOT NULL,
    draining_from bigint    NOT NULL,
    leaving_from  bigint    NOT NULL,
    consumer_ids  bigint[]  NOT NULL,
    counts        integer[] NOT NULL,
    ready_from    bigint[]  NOT NULL,
    CONSTRAINT partition_states_pkey PRIMARY KEY (queue_id, version)
);
COMMENT ON TABLE telesto.partition_states IS
    'Per queue: the arrival up to which all have been seen to, where its lines begin, and for each consumer '
    'how many partitions it has and where its line begins. The newest version counts.';
"""

LEASES = """
ALTER TABLE telesto.leases
    ADD COLUMN claim_id bigint NOT NULL DEFAULT 0,
    ADD COLUMN partition_key text COLLATE "C";
COMMENT ON COLUMN telesto.leases.claim_id IS
    'The claim; the lease of a partition goes on over several.';
ALTER TABLE telesto.dead_letters ADD COLUMN partition_key text COLLATE "C";
ALTER TABLE telesto.staged_messages ADD COLUMN partition_key text COLLATE "C"
    CONSTRAINT staged_messages_partition_key_length CHECK (char_length(partition_key) BETWEEN 1 AND 255);
"""

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
BODY_SETTINGS = """
ALTER TABLE telesto.keyed_messages SET (
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_cost_delay = 0
);
"""


def upgrade() -> None:
    """Create the tables of partitions."""
    for statements in (KEYED, PARTITIONS, LEASES):
        op.execute(statements)
    for table in ("keyed_messages", "partition_arrivals", "partitions", "partition_states"):
        op.execute(BUSY_SETTINGS.format(table=table))
    op.execute(BODY_SETTINGS)
