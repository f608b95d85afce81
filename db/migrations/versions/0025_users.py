"""Users: who may log in, and what each may do."""

from alembic import op

revision = "0025"
down_revision = "0024"
rollout = "before"

# A pattern has no control characters, as no name has any, so that one expression bounds them all.
USERS = """
CREATE TABLE telesto.users (
    user_id       bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT users_pkey PRIMARY KEY,
    name          text        NOT NULL CONSTRAINT users_name_unique UNIQUE
                              CONSTRAINT users_name_length CHECK (char_length(name) BETWEEN 1 AND 255),
    verifier      text        CONSTRAINT users_verifier_length
                              CHECK (char_length(verifier) BETWEEN 1 AND 1000),
    enabled       boolean     NOT NULL DEFAULT true,
    administrator boolean     NOT NULL DEFAULT false,
    monitor       boolean     NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE telesto.users IS 'Who may log in. Without any row nobody has to.';
COMMENT ON COLUMN telesto.users.verifier IS
    'What checks its password, SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey; NULL without a password.';
COMMENT ON COLUMN telesto.users.administrator IS 'May do everything.';
COMMENT ON COLUMN telesto.users.monitor IS 'Sees everything, and may change nothing by that.';
"""

PATTERNS = r"""
ALTER TABLE telesto.users ADD COLUMN {right} text[] NOT NULL DEFAULT '{{}}',
    ADD CONSTRAINT users_{right}_bounds CHECK (
        {right} = '{{}}'
        OR (array_ndims({right}) = 1 AND cardinality({right}) <= 64 AND array_position({right}, NULL) IS NULL
            AND array_to_string({right}, '') !~ '[\u0001-\u001f]'
            AND array_to_string({right}, E'\n') ~ '^[^\n]{{1,255}}(\n[^\n]{{1,255}})*$'));
COMMENT ON COLUMN telesto.users.{right} IS '{meaning}';
"""

RIGHTS = {
    "configure": "Patterns of the queues and topics that it may create, change and delete.",
    "put": "Patterns of the queues and topics into which it may put.",
    "get": "Patterns of the queues and topics from which it may read.",
    "admin": "Patterns of the queues and topics of which it may purge, redrive and cancel messages.",
    "clients": "Patterns of the names that its clients may have.",
}

OWNERS = """
ALTER TABLE telesto.clients ADD COLUMN user_id bigint;
COMMENT ON COLUMN telesto.clients.user_id IS
    'The user that registered it, which may be gone; NULL when nobody had to log in.';

CREATE TABLE telesto.sql_users (
    role_name name   NOT NULL CONSTRAINT sql_users_pkey PRIMARY KEY,
    user_id   bigint NOT NULL CONSTRAINT sql_users_user REFERENCES telesto.users ON DELETE CASCADE
);
COMMENT ON TABLE telesto.sql_users IS 'Which user a role of the database is when it calls procedures itself.';
"""

# Two UUIDs have 244 random bits, and there is no other source of them without an extension.
LOGIN_SECRET = """
ALTER TABLE telesto.installation ADD COLUMN login_secret bytea;
UPDATE telesto.installation
SET login_secret = sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
ALTER TABLE telesto.installation ALTER COLUMN login_secret SET NOT NULL,
    ADD CONSTRAINT installation_login_secret_length CHECK (octet_length(login_secret) = 32);
COMMENT ON COLUMN telesto.installation.login_secret IS
    'From it middlewares derive what they answer to the name of a user that does not exist.';
"""


def upgrade() -> None:
    """Create the tables and columns."""
    op.execute(USERS)
    for right, meaning in RIGHTS.items():
        op.execute(PATTERNS.format(right=right, meaning=meaning))
    op.execute(OWNERS)
    op.execute(LOGIN_SECRET)
