"""Sessions remember which attempt of their process opened them."""

from alembic import op

revision = "0002"
down_revision = "0001"
rollout = "before"

ATTEMPT = "ALTER TABLE telesto.clients ADD COLUMN attempt bigint;"


def upgrade() -> None:
    """Add the attempt, unknown for the sessions that there are."""
    op.execute(ATTEMPT)
