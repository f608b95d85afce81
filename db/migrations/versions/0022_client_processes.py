"""Temporary clients, and which process has each client."""

from alembic import op

revision = "0022"
down_revision = "0021"
rollout = "before"

COLUMNS = """
ALTER TABLE telesto.clients
    ADD COLUMN temporary boolean NOT NULL DEFAULT false,
    ADD COLUMN seen_at timestamptz,
    ADD COLUMN process text,
    ADD COLUMN library text,
    ADD COLUMN address text,
    ADD COLUMN session_at timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN telesto.clients.temporary IS
    'It is deleted when no middleware has seen its connection for some minutes.';
COMMENT ON COLUMN telesto.clients.seen_at IS
    'When a middleware last saw the connection of a temporary client; NULL for others.';
COMMENT ON COLUMN telesto.clients.process IS
    'The process that opened the session, as it calls itself, such as host:pid.';
COMMENT ON COLUMN telesto.clients.library IS 'The name and version of its library.';
COMMENT ON COLUMN telesto.clients.address IS 'The address of its connection.';
COMMENT ON COLUMN telesto.clients.session_at IS 'When it opened the session.';
CREATE INDEX clients_temporary ON telesto.clients (client_id) WHERE temporary;
"""


def upgrade() -> None:
    """Add the columns."""
    op.execute(COLUMNS)
