"""A middleware's server processes are those of one server."""

from alembic import op

revision = "0007"
down_revision = "0006"
rollout = "before"

SERVER = """
ALTER TABLE telesto.middlewares ADD COLUMN server_started_at timestamptz;
COMMENT ON COLUMN telesto.middlewares.server_started_at IS
    'When the server was started that pids are of; on another one, or after a restart, they mean nothing.';
"""


def upgrade() -> None:
    """Add the server, unknown until the next signs of life."""
    op.execute(SERVER)
