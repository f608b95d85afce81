"""The history of messages: a table partitioned by day, settings of queues, and what messages carry for it."""

from alembic import op

revision = "0009"
down_revision = "0008"
rollout = "before"

SETTINGS = """
ALTER TABLE telesto.queues
    ADD COLUMN history text NOT NULL DEFAULT 'metadata'
        CONSTRAINT queues_history_known CHECK (history IN ('none', 'metadata', 'full')),
    ADD COLUMN history_days smallint NOT NULL DEFAULT 7
        CONSTRAINT queues_history_days_range CHECK (history_days BETWEEN 1 AND 366);
COMMENT ON COLUMN telesto.queues.history IS
    'What stays of a message that is over: none, metadata, full (with its body); as it is set at the put.';
COMMENT ON COLUMN telesto.queues.history_days IS 'For how many days.';
"""

# What ends a message looks up nothing: the message says itself what is to be kept of it.
CARRIED = """
ALTER SEQUENCE telesto.middleware_ids MAXVALUE 2147483647;
ALTER TABLE telesto.messages
    ADD COLUMN history smallint NOT NULL DEFAULT 0,
    ADD COLUMN put_through integer;
ALTER TABLE telesto.delayed_messages
    ADD COLUMN history smallint NOT NULL DEFAULT 0,
    ADD COLUMN put_through integer;
ALTER TABLE telesto.deliveries
    ADD COLUMN history smallint NOT NULL DEFAULT 0,
    ADD COLUMN put_through integer,
    ADD COLUMN handed_over_through integer;
ALTER TABLE telesto.leases
    ADD COLUMN history smallint NOT NULL DEFAULT 0,
    ADD COLUMN put_through integer,
    ADD COLUMN handed_over_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN handed_over_through integer;
ALTER TABLE telesto.dead_letters
    ADD COLUMN history smallint NOT NULL DEFAULT 0,
    ADD COLUMN put_through integer,
    ADD COLUMN handed_over_through integer;
"""
CARRIED_COMMENT = """
COMMENT ON COLUMN telesto.{table}.history IS
    'For how many days the history keeps it once it is over; negative: with its body; 0: not at all.';
COMMENT ON COLUMN telesto.{table}.put_through IS 'The middleware; NULL when it was put from SQL.';
"""

HISTORY = """
CREATE TYPE telesto.ending AS ENUM (
    'confirmed', 'acknowledged', 'unrecorded', 'returned', 'purged', 'expired', 'dead', 'deleted'
);
COMMENT ON TYPE telesto.ending IS
    'How a message, or one hand-over of it, ended: confirmed by its reader; acknowledged by its consumer; '
    'unrecorded, handed over without a record (delivery "fast"); returned to its queue; purged from it; '
    'expired; gone to the dead letters; gone with its queue.';

CREATE TABLE telesto.history (
    message_id          bigint         NOT NULL,
    queue_id            bigint         NOT NULL,
    sender_id           bigint         NOT NULL,
    receiver_id         bigint         NOT NULL,
    context             bigint,
    client_id           bigint,
    session             bigint,
    number              bigint,
    consumer_id         bigint,
    time_of_arrival     timestamptz    NOT NULL,
    handed_over_at      timestamptz,
    ended_at            timestamptz    NOT NULL,
    transaction_id      bigint         NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    drop_on             date           NOT NULL,
    ending              telesto.ending NOT NULL,
    put_through         integer,
    handed_over_through integer,
    attempt             integer        NOT NULL,
    priority            smallint       NOT NULL,
    redelivered         boolean        NOT NULL,
    reason              text,
    body                bytea
) PARTITION BY RANGE (drop_on);
COMMENT ON TABLE telesto.history IS
    'Messages that are over, and hand-overs that are: a row each time one ends. Partitioned by the day on '
    'which the rows are dropped.';
COMMENT ON COLUMN telesto.history.number IS
    'The number of the read, 0 for one without a record; the lease of a consumer; NULL if never handed over.';
COMMENT ON COLUMN telesto.history.consumer_id IS 'The consumer that had it; NULL for a read.';
COMMENT ON COLUMN telesto.history.reason IS 'Why it came back from a consumer, or died.';
COMMENT ON COLUMN telesto.history.client_id IS 'To whom it was handed over last; NULL if never.';
COMMENT ON COLUMN telesto.history.transaction_id IS
    'The transaction that wrote the row. To read all rows once, take those from one value of '
    'pg_snapshot_xmin(pg_current_snapshot()) up to the next.';
ALTER TABLE telesto.history ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX history_message_id ON telesto.history (message_id);

CREATE TABLE telesto.history_partitions (
    day       date        NOT NULL CONSTRAINT history_partitions_pkey PRIMARY KEY,
    due_on    date,
    due_since timestamptz,
    emptied   boolean     NOT NULL DEFAULT false,
    name      text        NOT NULL
);
COMMENT ON TABLE telesto.history_partitions IS
    'The partitions of history: whose rows each holds (drop_on), and when it may go; NULL: it holds none.';

CREATE TABLE telesto.history_calendar (
    only_row boolean NOT NULL DEFAULT true CONSTRAINT history_calendar_pkey PRIMARY KEY
                     CONSTRAINT history_calendar_single CHECK (only_row),
    days     date[]  NOT NULL
);
COMMENT ON TABLE telesto.history_calendar IS
    'The days of history_partitions in one row, for whatever ends messages has to know them.';

-- Whatever the clock says and however long no job made partitions, there is one to write to.
CREATE TABLE telesto.history_floor PARTITION OF telesto.history
    FOR VALUES FROM ('2000-01-01') TO ('2000-01-02');
INSERT INTO telesto.history_partitions (day, due_on, name) VALUES ('2000-01-01', NULL, 'history_floor');
INSERT INTO telesto.history_calendar (days) VALUES ('{2000-01-01}');

CREATE TABLE telesto.middleware_names (
    middleware_id bigint      NOT NULL CONSTRAINT middleware_names_pkey PRIMARY KEY,
    registered_at timestamptz NOT NULL DEFAULT now(),
    address       text        NOT NULL,
    version       text        NOT NULL
);
COMMENT ON TABLE telesto.middleware_names IS
    'All middlewares that the history may speak of, those that are gone included.';
INSERT INTO telesto.middleware_names (middleware_id, registered_at, address, version)
SELECT middleware_id, started_at, address, version FROM telesto.middlewares;
"""


def upgrade() -> None:
    """Create the history and what leads to it; what waits already is not kept."""
    for statements in (SETTINGS, CARRIED, HISTORY):
        op.execute(statements)
    for table in ("messages", "delayed_messages", "deliveries", "leases", "dead_letters"):
        op.execute(CARRIED_COMMENT.format(table=table))
