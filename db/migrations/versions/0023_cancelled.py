"""Messages that were cancelled."""

from alembic import op

revision = "0023"
down_revision = "0022"
rollout = "before"


def upgrade() -> None:
    """Add how they ended."""
    op.execute("ALTER TYPE telesto.ending ADD VALUE 'cancelled'")
