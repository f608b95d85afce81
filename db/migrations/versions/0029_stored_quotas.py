"""Quotas of what users have stored and of the topics that they have made."""

from alembic import op

revision = "0029"
down_revision = "0028"
rollout = "before"

QUOTAS = {
    "max_topics": ("int", "How many topics it may have created."),
    "max_stored_messages": ("bigint", "How many messages of its clients may be stored."),
    "max_stored_bytes": ("bigint", "How many bytes the bodies of these may have."),
}
QUOTA = """
ALTER TABLE telesto.users ADD COLUMN {name} {type} CONSTRAINT users_{name}_range CHECK ({name} >= 0);
COMMENT ON COLUMN telesto.users.{name} IS '{meaning} NULL for no limit.';
"""
OWNERS = """
ALTER TABLE telesto.topics ADD COLUMN user_id bigint;
COMMENT ON COLUMN telesto.topics.user_id IS 'The user that created it, which may be gone; NULL for nobody.';
CREATE INDEX topics_user ON telesto.topics (user_id) WHERE user_id IS NOT NULL;
"""
USAGE = """
CREATE TABLE telesto.user_usage (
    user_id         bigint      NOT NULL CONSTRAINT user_usage_pkey PRIMARY KEY
                                CONSTRAINT user_usage_user REFERENCES telesto.users ON DELETE CASCADE,
    stored_messages bigint      NOT NULL,
    stored_bytes    bigint      NOT NULL,
    measured_at     timestamptz NOT NULL
);
COMMENT ON TABLE telesto.user_usage IS
    'What clients of users with a quota of it have stored, as it was measured last.';
"""


def upgrade() -> None:
    """Add the columns and the table."""
    for name, (kind, meaning) in QUOTAS.items():
        op.execute(QUOTA.format(name=name, type=kind, meaning=meaning))
    op.execute(OWNERS)
    op.execute(USAGE)
