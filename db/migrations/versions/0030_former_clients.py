"""Remember of which user deleted clients were, as long as messages of theirs are stored."""

from alembic import op

revision = "0030"
down_revision = "0029"
rollout = "before"

TABLE = """
CREATE TABLE telesto.former_clients (
    client_id bigint      NOT NULL CONSTRAINT former_clients_pkey PRIMARY KEY,
    user_id   bigint      NOT NULL,
    seen_at   timestamptz NOT NULL
);
COMMENT ON TABLE telesto.former_clients IS
    'Deleted clients of users with a quota of what is stored: what they have put counts until it is gone.';
COMMENT ON COLUMN telesto.former_clients.seen_at IS 'When messages of it were found last, or it was deleted.';
"""


def upgrade() -> None:
    """Add the table."""
    op.execute(TABLE)
