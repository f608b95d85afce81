"""Steps of the database's clock that have been noticed."""

from alembic import op

revision = "0016"
down_revision = "0015"
rollout = "before"

CLOCK = """
CREATE TABLE telesto.clock (
    one       boolean     NOT NULL DEFAULT true
        CONSTRAINT clock_pkey PRIMARY KEY CONSTRAINT clock_one CHECK (one),
    steps     bigint      NOT NULL DEFAULT 0,
    last_step interval,
    noted_at  timestamptz
);
INSERT INTO telesto.clock DEFAULT VALUES;
COMMENT ON TABLE telesto.clock IS
    'How many steps of the clock of this server have been noticed, how far the last one went, and when it '
    'was noted.';
"""


def upgrade() -> None:
    """Create the table and its only row."""
    op.execute(CLOCK)
