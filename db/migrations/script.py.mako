"""${message}."""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
rollout = "before"


def upgrade() -> None:
    """Say what changes and why."""
    op.execute(
        """
        """
    )
