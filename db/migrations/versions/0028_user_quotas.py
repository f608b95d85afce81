"""Quotas of users: how much each may use."""

from alembic import op

revision = "0028"
down_revision = "0027"
rollout = "before"

QUOTAS = {
    "max_connections": "How many connections of it each middleware serves.",
    "max_clients": "How many clients it may have.",
    "max_queues": "How many queues it may have created.",
    "max_consumers": "How many consumers it may have at each middleware.",
    "max_waiting_reads": "How many of its reads may wait at each middleware.",
    "max_puts_per_s": "How many messages it may put in a second through each middleware.",
}
QUOTA = """
ALTER TABLE telesto.users ADD COLUMN {name} int CONSTRAINT users_{name}_range CHECK ({name} >= 0);
COMMENT ON COLUMN telesto.users.{name} IS '{meaning} NULL for no limit.';
"""
OWNERS = """
ALTER TABLE telesto.queues ADD COLUMN user_id bigint;
COMMENT ON COLUMN telesto.queues.user_id IS 'The user that created it, which may be gone; NULL for nobody.';
CREATE INDEX clients_user ON telesto.clients (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX queues_user ON telesto.queues (user_id) WHERE user_id IS NOT NULL;
"""


def upgrade() -> None:
    """Add the columns."""
    for name, meaning in QUOTAS.items():
        op.execute(QUOTA.format(name=name, meaning=meaning))
    op.execute(OWNERS)
