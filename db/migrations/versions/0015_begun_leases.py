"""Which messages a consumer has begun, and consumers that are not ended for failing."""

from alembic import op

revision = "0015"
down_revision = "0014"
rollout = "before"

BEGUN = """
ALTER TABLE telesto.leases ADD COLUMN begun boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN telesto.leases.begun IS
    'The application was given the message. Its middleware notes that after a while, so false says nothing.';
"""

# The default used to be 3, so that value was hardly anybody's choice.
FAIL_LIMIT = """
ALTER TABLE telesto.queues ALTER COLUMN fail_limit SET DEFAULT 0;
UPDATE telesto.queues SET fail_limit = 0 WHERE fail_limit = 3;
COMMENT ON COLUMN telesto.queues.fail_limit IS
    'A consumer that fails so often in a row is ended; 0 for never.';
"""


def upgrade() -> None:
    """Add the column and change the default."""
    op.execute(BEGUN)
    op.execute(FAIL_LIMIT)
