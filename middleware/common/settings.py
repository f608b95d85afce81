"""All settings of a middleware, from the command line, TELESTO_* and a TOML file."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from telesto.middleware.common.database_url import read_database_url
from telesto.middleware.common.service_links import service_links
from telesto.protocol.packets import DEFAULT_PORT, MAX_FRAME_DEFAULT, MAX_FRAME_UNIDENTIFIED

#: More than the bytes of a frame beside the body of a message.
FRAME_OVERHEAD_BYTES = 1024

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):[0-9]{1,5}")


class ServerSettings(BaseSettings):
    """The settings of one middleware.

    ``load`` merges the sources. An instance does not change. A name ends with its unit: ``_s`` seconds,
    ``_ms`` milliseconds, ``_bytes`` bytes. Others are counts.
    """

    model_config = SettingsConfigDict(
        env_prefix="TELESTO_",
        extra="ignore",
        frozen=True,
        # The refused value may be a URL with a password.
        hide_input_in_errors=True,
    )

    # --- addresses -----------------------------------------------------------------------------
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(DEFAULT_PORT, ge=0, le=65535, description="Port for clients; 0 takes a free one.")
    admin_host: str = Field("127.0.0.1", description="Address of /metrics, /phases, /livez and /readyz.")
    admin_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port of /metrics, /phases, /livez and /readyz; 0 takes a free one, unset serves none.",
    )
    advertised_address: str | None = Field(
        None,
        description="host:port that clients are told, by the other middlewares too. Default: host and port; "
        "for a host that means every address, the one by which this machine reaches others.",
    )
    tls_certificate: Path | None = Field(
        None,
        description="PEM file of the certificate, followed by those of the authorities between it and the "
        "root. With it both ports speak TLS. SIGHUP reads it again, with the key and tls_client_ca.",
    )
    tls_key: Path | None = Field(
        None, description="PEM file of the certificate's key. Default: it is in tls_certificate."
    )
    tls_client_ca: Path | None = Field(
        None,
        description="PEM file of authorities: clients must present a certificate from one of them, except on "
        "the admin port.",
    )
    insecure: bool = Field(
        False,
        description="Listen on an address other than loopback without TLS, and without a login while there "
        "are no users: whoever reaches the port may do everything.",
    )
    jwt_key_file: Path | None = Field(
        None,
        description="File of keys that check tokens (JWT) by which users log in: public keys in PEM form "
        "(RSA, P-256, Ed25519), or a secret of at least 32 bytes. It is read again when it has changed.",
    )
    jwt_audience: str | None = Field(
        None, description="The audience (aud) that tokens must name. Default: they must name none."
    )
    jwt_issuer: str | None = Field(None, description="The issuer (iss) that tokens must name.")
    processes: int = Field(1, ge=1, le=256, description="Processes that share the port.")
    reuse_port: bool = Field(False, description="Let several processes listen on the same port.")

    # --- database ------------------------------------------------------------------------------
    database_url: SecretStr = Field(
        SecretStr("postgresql://127.0.0.1:5432/telesto"), description="The database that holds all state."
    )
    listen_database_url: SecretStr | None = Field(
        None, description="Where to LISTEN, when database_url leads through a transaction pooler."
    )
    database_start_s: float = Field(60.0, gt=0, description="How long to wait for the database at start.")
    database_connect_s: float = Field(
        5.0, gt=0, description="How long one server may take to connect, unless the URL has connect_timeout."
    )
    database_backoff_s: float = Field(1.0, gt=0, description="Longest pause between attempts to connect.")
    database_silent_ms: int = Field(
        5_000,
        ge=100,
        description="A connection whose peer acknowledges nothing for this time is dead, on both sides. So "
        "is that by which users are read, if it does not answer.",
    )
    database_late_s: float = Field(
        1.0,
        gt=0,
        description="How late a heartbeat or a call may be before the connection is checked.",
    )
    statement_timeout_s: float = Field(
        300.0, ge=0, description="PostgreSQL cancels a call that takes longer; 0 for no limit."
    )
    lock_timeout_s: float = Field(
        30.0,
        ge=0,
        description="PostgreSQL cancels a call of the middleware's own work that waits longer for one lock; "
        "0 for no limit. Calls for clients wait for lock_wait_ms.",
    )
    transaction_timeout_s: float = Field(
        360.0,
        ge=0,
        description="PostgreSQL 17 or later ends the connection of a transaction that takes longer; "
        "0 for no limit.",
    )
    idle_in_transaction_timeout_s: float = Field(
        60.0,
        ge=0,
        description="PostgreSQL ends the connection of a transaction idle for longer; 0 for no limit.",
    )
    standby_wait_s: float = Field(
        5.0,
        ge=0,
        description="A commit that waits longer for a synchronous standby is in doubt, and writes are "
        "refused until the standby is back; 0 lets them wait.",
    )
    standby_retry_ms: int = Field(500, ge=1, description="The pause that STANDBY_UNAVAILABLE suggests.")

    disk_directory: Path | None = Field(
        None,
        description="PostgreSQL's data directory, or any other on its disk, if this machine has it: tells "
        "how much is free. `telesto serve` sets it for a PostgreSQL of its own.",
    )
    disk_reserve_bytes: int = Field(
        1 << 30,
        ge=0,
        description="Puts are refused (DISK_FULL) while less is free, or a tenth of the disk if that is "
        "less, but not less than 128 MiB.",
    )
    max_database_bytes: int | None = Field(
        None,
        ge=1,
        description="Puts are refused when the database, with the reserve, is larger. For a disk that "
        "this machine cannot see; the write-ahead log is not counted.",
    )
    disk_retry_ms: int = Field(1_000, ge=1, description="The pause that DISK_FULL suggests.")

    # --- connections ---------------------------------------------------------------------------
    max_connections: int = Field(
        10_000,
        ge=1,
        description="How many clients may be connected at a time; one more ends one that has not said who it "
        "is.",
    )
    backlog: int = Field(
        1_024, ge=1, description="Connections that the kernel holds until they are accepted."
    )
    max_frame: int = Field(
        MAX_FRAME_DEFAULT, ge=65_536, le=1 << 30, description="Longest frame in either direction, in bytes."
    )
    max_body_bytes: int = Field(
        MAX_FRAME_DEFAULT - 65_536, ge=0, description="Longest body of a message that is put."
    )
    idle_limit_s: float = Field(
        300.0, ge=0, description="A connection that is silent for longer is closed; 0 for never."
    )
    identify_limit_s: float = Field(
        30.0, gt=0, description="How long a connection may take to identify itself."
    )
    max_handshakes: int = Field(
        256, ge=1, description="TLS handshakes under way; one more ends one of the address that has most."
    )
    handshake_limit_s: float = Field(10.0, gt=0, description="How long a TLS handshake may take.")
    frame_limit_s: float = Field(
        60.0,
        gt=0,
        description="How long a frame may take to arrive, plus a second for each 64 KiB of it.",
    )
    linger_s: float = Field(
        2.0, gt=0, description="How long a closed peer may take to read its last answers."
    )
    pipeline_requests: int = Field(1_024, ge=1, description="How many requests of a connection may wait.")
    pipeline_bytes: int = Field(
        4 << 20,
        ge=1,
        description="Bytes of requests that may wait; beyond this or pipeline_requests nothing more is read.",
    )
    write_high_bytes: int = Field(
        1 << 20, ge=1, description="With more unsent answers than this nothing more is read."
    )
    write_low_bytes: int = Field(
        256 << 10, ge=0, description="Reading goes on when the unsent answers fall to this."
    )
    write_hard_bytes: int = Field(
        64 << 20, ge=1, description="With more unsent answers than this the connection ends."
    )
    write_stalled_s: float = Field(
        30.0, gt=0, description="A connection ends when its peer has read too little for this time."
    )
    max_unconfirmed: int = Field(
        1_024, ge=1, description="How many numbered requests a client may leave unconfirmed."
    )

    # --- the whole middleware ------------------------------------------------------------------
    budget_requests: int = Field(
        100_000, ge=1, description="How many requests may be under way in the whole middleware."
    )
    budget_bytes: int = Field(
        256 << 20,
        ge=1,
        description="Bytes of requests under way; beyond this or budget_requests the answer is OVERLOADED.",
    )
    budget_unsent_bytes: int = Field(
        256 << 20, ge=1, description="Bytes of answers that peers have not read yet, in the whole middleware."
    )
    address_share: float = Field(
        0.8,
        gt=0,
        le=1,
        description="The part of each budget and of the waiting reads that clients of one address may use.",
    )
    overload_retry_ms: int = Field(100, ge=1, description="The pause that OVERLOADED suggests.")

    # --- gathering -----------------------------------------------------------------------------
    max_batch: int = Field(
        512,
        ge=1,
        description="Requests in one call, and messages that one claim takes for consumers; 1 executes each "
        "request by itself.",
    )
    max_batch_bytes: int = Field(4 << 20, ge=1, description="Bytes of requests in one call.")
    max_answer_bytes: int = Field(
        4 << 20, ge=1_024, description="Bytes of bodies that one call should return."
    )
    locked_answer_bytes: int = Field(
        64 << 10,
        ge=0,
        description="Where more is expected, queues are free before a call's answer is sent, at the price of "
        "two more messages each way; 0 for never, as a transaction pooler needs it.",
    )
    heavy_queue_s: float = Field(10.0, gt=0, description="How long a queue counts as one of large messages.")
    heavy_queues: int = Field(10_000, ge=1, description="How many queues of large messages are remembered.")
    quantum: int = Field(32, ge=1, description="Requests of a connection in one turn while others wait.")
    quick_call_ms: float = Field(
        3.0,
        ge=0,
        description="While calls that only write few messages take less than this, such calls wait for one "
        "another and gather more requests; 0 for never.",
    )
    call_wait_ms: float = Field(10.0, ge=0, description="How long a call waits for another one, at most.")
    crowd: int = Field(
        8, ge=1, description="With at most this many requests under way, no call waits for another."
    )
    many_messages: int = Field(
        64,
        ge=1,
        description="A call for this many messages waits for no other. One that puts fewer also hands them "
        "to consumers that wait.",
    )
    put_workers: int = Field(1, ge=1, le=64, description="Calls of puts at a time.")
    take_workers: int = Field(1, ge=1, le=64, description="Calls of reads by priority at a time.")
    selected_workers: int = Field(1, ge=1, le=64, description="Calls of other reads at a time.")
    ack_workers: int = Field(1, ge=1, le=64, description="Calls of acknowledgements at a time.")
    confirm_workers: int = Field(1, ge=1, le=64, description="Calls of confirmations at a time.")
    publish_workers: int = Field(1, ge=1, le=64, description="Calls of puts to topics at a time.")
    fetch_workers: int = Field(1, ge=1, le=64, description="Calls of gets from topics at a time.")
    login_workers: int = Field(
        2, ge=1, le=64, description="Calls of logins, and of clients that register or identify, at a time."
    )
    single_workers: int = Field(4, ge=1, le=64, description="Calls of all other requests at a time.")
    browse_workers: int = Field(1, ge=1, le=64, description="Pages of messages that are looked up at a time.")
    lock_wait_ms: int = Field(
        100,
        ge=1,
        description="How long a call waits for a lock before others have their turn; its requests, of which "
        "nothing was done, are tried again.",
    )
    single_lock_wait_ms: int = Field(
        10, ge=1, description="The same for the first try of a request that is not gathered."
    )
    busy_backoff_ms: int = Field(
        1, ge=1, description="The first pause before a request that met a lock is tried again."
    )
    busy_backoff_max_ms: int = Field(
        50, ge=1, description="The longest pause before a request that met a lock is tried again."
    )
    busy_limit_s: float = Field(
        10.0, gt=0, description="A request that meets locks for longer is answered OVERLOADED."
    )
    takeover_limit_s: float = Field(
        5.0, gt=0, description="A takeover that meets locks for longer is answered TAKEOVER_BUSY."
    )
    quarantine_s: float = Field(
        30.0, gt=0, description="How long clients of a call that died are kept apart from others."
    )
    quarantine_batch: int = Field(8, ge=1, description="Requests in one call of a client that is kept apart.")
    quarantine_max: int = Field(10_000, ge=1, description="How many clients are kept apart at a time.")

    # --- requests ------------------------------------------------------------------------------
    max_put_elements: int = Field(1_000, ge=1, description="Messages or queues in one put.")
    max_read_messages: int = Field(1_000, ge=1, description="Messages that one read or get returns.")
    max_page_rows: int = Field(500, ge=1, description="Rows of one page of a list.")
    max_page_bytes: int = Field(
        256 << 10, ge=1_024, description="Bytes of bodies of one page of messages, if it has more than one."
    )
    max_references: int = Field(10_000, ge=1_024, description="References in one Confirm or Release.")
    purge_rows: int = Field(10_000, ge=1, description="Messages removed by one call of a purge.")
    statistics_rows: int = Field(
        10_000, ge=1, description="Up to how many messages of a kind a queue's figures count one by one."
    )
    max_history_probes: int = Field(
        200_000, ge=1, description="How many waiting messages are looked at to find one by its id."
    )

    # --- waiting reads -------------------------------------------------------------------------
    max_waiting_reads: int = Field(10_000, ge=1, description="Reads that wait at a time.")
    interest_idle_s: float = Field(
        30.0, gt=0, description="How long interest in a queue lasts after its last waiting read."
    )
    wake_sweep_s: float = Field(
        1.0, gt=0, description="How often to look for messages that no wake-up announced."
    )
    wake_sweep_reads: int = Field(
        64, ge=1, description="How many reads of a queue one look for messages wakes."
    )
    wake_sweep_queues: int = Field(
        1_000, ge=1, description="How many queues one call of a look for messages covers."
    )
    notify_interval_ms: int = Field(10, ge=1, description="Shortest time between two NOTIFYs.")
    notify_entries: int = Field(
        10_000, ge=1, description="How many queues and receivers are gathered for one NOTIFY."
    )

    # --- consumers -----------------------------------------------------------------------------
    max_consumers: int = Field(10_000, ge=1, description="Consumers of a middleware at a time.")
    max_credit: int = Field(10_000, ge=1, description="How many messages a consumer may have at a time.")
    due_sweep_interval_s: float = Field(
        0.5,
        gt=0,
        description="How often the maintenance jobs run that handle what is due: leases that ran out, "
        "consumers that are gone, delayed and expired messages, and dead letters that go to a queue.",
    )
    lost_leases_s: float = Field(
        0.5, gt=0, description="How often a middleware asks which leases of its consumers ran out."
    )

    # --- running -------------------------------------------------------------------------------
    heartbeat_interval_s: float = Field(
        2.0, gt=0, description="How often a middleware sends its heartbeat to the others."
    )
    heartbeat_timeout_s: float = Field(
        6.0, gt=0, description="A middleware that is silent for longer is dead."
    )
    sweep_interval_s: float = Field(
        5.0,
        gt=0,
        description="How often the other maintenance jobs run: retention, removal, days of the history.",
    )
    staged_interval_s: float = Field(0.05, gt=0, description="How often to look for staged messages.")
    staged_idle_s: float = Field(
        0.25, gt=0, description="How often to look for staged messages when there were none for a while."
    )
    sweep_rows: int = Field(1_000, ge=1, description="How many rows one call of a maintenance job handles.")
    retention_s: float = Field(
        7 * 86_400.0,
        gt=0,
        description="A message that is unconfirmed for longer becomes a dead letter; it is checked once in a "
        "thousandth of this time.",
    )
    topic_idle_s: float = Field(
        86_400.0, gt=0, description="A topic that has neither subscribers nor puts for this time is removed."
    )
    temporary_client_s: float = Field(
        300.0, gt=0, description="A temporary client is deleted when its connection was gone for this time."
    )
    shutdown_limit_s: float = Field(
        10.0, ge=0, description="How long requests under way may take when the middleware stops."
    )
    goaway_grace_s: float = Field(
        1.0, ge=0, description="How long clients may take to leave when the middleware stops."
    )
    restart_backoff_s: float = Field(
        5.0, gt=0, description="The longest pause before a crashed process is restarted."
    )
    loop_lag_interval_s: float = Field(
        0.5, gt=0, description="How often the lag of the event loop is measured."
    )
    phase_every: int = Field(
        0,
        ge=0,
        description="One of this many requests is timed on its way (GET /phases, admin port); 0 for none.",
    )
    gc_threshold: int = Field(
        20_000, ge=0, description="New objects between two garbage collections; 0 keeps Python's own value."
    )
    log_level: str = Field(
        "info", pattern="^(debug|info|warning|error)$", description="The least level that is logged."
    )
    log_json: bool = Field(False, description="Write log lines as JSON.")
    audit_log: Path | None = Field(
        None,
        description="File of JSON lines about who did what: clients that register or are taken over, queues "
        "and topics that are created, changed, purged or deleted, and what was refused. Unset: none.",
    )
    audit_table: bool = Field(
        False,
        description="Keep the audit log in the table telesto.audit, too, which has what is changed in SQL.",
    )
    audit_days: float = Field(90.0, gt=0, description="For how many days that table keeps it.")

    @field_validator("advertised_address")
    @classmethod
    def _check_address(cls, address: str | None) -> str | None:
        if address is not None and not _ADDRESS.fullmatch(address):
            raise ValueError("write host:port, or [host]:port for an IPv6 address")
        return address

    @field_validator("database_url", "listen_database_url")
    @classmethod
    def _check_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            read_database_url(url.get_secret_value())
        return url

    @model_validator(mode="after")
    def _check_frame(self) -> Self:
        if self.max_body_bytes > self.max_frame - FRAME_OVERHEAD_BYTES:
            raise ValueError(
                f"max_body_bytes ({self.max_body_bytes}) must be at least {FRAME_OVERHEAD_BYTES} below "
                f"max_frame ({self.max_frame})"
            )
        return self

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if self.tls_certificate is None and (self.tls_key or self.tls_client_ca):
            given = "tls_key" if self.tls_key else "tls_client_ca"
            raise ValueError(f"{given} needs tls_certificate")
        return self

    @model_validator(mode="after")
    def _check_tokens(self) -> Self:
        if self.jwt_key_file is None and (self.jwt_audience or self.jwt_issuer):
            given = "jwt_audience" if self.jwt_audience else "jwt_issuer"
            raise ValueError(f"{given} needs jwt_key_file")
        return self

    @model_validator(mode="after")
    def _check_marks(self) -> Self:
        if not self.write_low_bytes < self.write_high_bytes < self.write_hard_bytes:
            raise ValueError("write_low_bytes < write_high_bytes < write_hard_bytes must hold")
        if self.heartbeat_timeout_s < 2 * self.heartbeat_interval_s:
            raise ValueError("heartbeat_timeout_s must be at least twice heartbeat_interval_s")
        return self

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Uses only the arguments: `load` reads the environment."""
        return (init_settings,)

    @classmethod
    def load(cls, config: Path | None = None, **overrides: Any) -> Self:
        """Merges the TOML file, then TELESTO_*, then the overrides that are not None.

        Links to a Kubernetes service, such as TELESTO_PORT=tcp://10.0.0.1:7001, are ignored.

        Raises pydantic.ValidationError, which names the setting, and OSError or tomllib.TOMLDecodeError for
        the file. An unknown name in the file is an error, so that typing errors are noticed.
        """
        values: dict[str, Any] = {}
        if config is not None:
            values.update(_read_file(config, cls))
        variables, links = EnvSettingsSource(cls), {name.lower() for name in service_links(os.environ)}
        # The source has the names in lower case.
        variables.env_vars = {name: value for name, value in variables.env_vars.items() if name not in links}
        values.update(variables())
        values.update({name: value for name, value in overrides.items() if value is not None})
        return cls(**values)


def _read_file(config: Path, settings: type[ServerSettings]) -> dict[str, Any]:
    with config.open("rb") as file:
        values = tomllib.load(file)
    unknown = sorted(set(values) - set(settings.model_fields))
    if unknown:
        raise ValueError(f"{config}: there is no setting named {', '.join(unknown)}")
    return values


#: The longest frame before a client is identified, in bytes.
UNIDENTIFIED_FRAME_BYTES = MAX_FRAME_UNIDENTIFIED
