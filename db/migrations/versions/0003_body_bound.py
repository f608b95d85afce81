"""The longest body that may be put from SQL."""

from alembic import op

revision = "0003"
down_revision = "0002"
rollout = "before"

BOUND = """
ALTER TABLE telesto.installation
    ADD COLUMN max_body_bytes integer NOT NULL DEFAULT 16711680
    CONSTRAINT installation_max_body_bytes_positive CHECK (max_body_bytes >= 0);
COMMENT ON COLUMN telesto.installation.max_body_bytes IS
    'Longest body put from SQL, in bytes; not above what the middlewares can hand over.';
"""


def upgrade() -> None:
    """Add the bound, at first that of a middleware whose settings are the default ones."""
    op.execute(BOUND)
