"""Topics that are deleted, or go when they are idle."""

from alembic import op

revision = "0017"
down_revision = "0016"
rollout = "before"

TOPICS = """
ALTER TABLE telesto.topics
    ADD COLUMN idle_since timestamptz,
    ADD COLUMN idle_number bigint NOT NULL DEFAULT 0,
    ADD COLUMN numbered boolean NOT NULL DEFAULT false;
UPDATE telesto.topics AS topic SET numbered = true
WHERE EXISTS (SELECT FROM telesto.publisher_states AS state WHERE state.topic_id = topic.topic_id);
COMMENT ON TABLE telesto.topics IS
    'The topics; reclaimed is the number up to which messages have been removed.';
COMMENT ON COLUMN telesto.topics.idle_since IS
    'Since when nobody has been seen to subscribe, nor to put anything behind idle_number; NULL: not idle.';
COMMENT ON COLUMN telesto.topics.numbered IS
    'Whether some publisher numbers its own messages here: then the topic stays until it is deleted.';

CREATE TABLE telesto.deleted_topics (
    topic_id bigint NOT NULL CONSTRAINT deleted_topics_pkey PRIMARY KEY,
    removed  bigint NOT NULL
);
COMMENT ON TABLE telesto.deleted_topics IS
    'Topics whose messages are still being removed, and the number up to which that is done.';
"""


def upgrade() -> None:
    """Add what tells idle topics, and the table of deleted ones."""
    op.execute(TOPICS)
