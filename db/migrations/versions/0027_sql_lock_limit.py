"""How long a transaction of a SQL user may keep a queue's lock."""

from alembic import op

revision = "0027"
down_revision = "0026"
rollout = "before"

LIMIT = """
ALTER TABLE telesto.installation ADD COLUMN sql_lock_limit_ms int NOT NULL DEFAULT 5000
    CONSTRAINT installation_sql_lock_limit CHECK (sql_lock_limit_ms BETWEEN 0 AND 86400000);
COMMENT ON COLUMN telesto.installation.sql_lock_limit_ms IS
    'PostgreSQL ends a transaction of a SQL user that keeps a queue''s lock for longer; 0 for no limit.';
"""


def upgrade() -> None:
    """Add the column."""
    op.execute(LIMIT)
