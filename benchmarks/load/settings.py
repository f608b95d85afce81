"""The settings of one run: every parameter of the load and of the service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from telesto.benchmarks.load.bodies import ENVELOPE_BYTES
from telesto.benchmarks.load.pacing import Arrivals, ThinkSpread
from telesto.client import Delivery

WorkloadName = Literal[
    "one-way", "pairs", "pool", "mix", "put", "read", "put-read", "fan-out", "consume", "drain", "idle"
]
History = Literal["none", "metadata", "full"]
ClientKind = Literal["asyncio", "blocking"]
LoopName = Literal["closed", "open"]

MIX_STEP = 9
"""Of every nine clients of the mix, five, two and two have its three types."""
GATHERED = ("put", "take", "selected", "ack", "confirm", "publish", "fetch")
"""The kinds of requests whose workers the setting `workers` counts."""
POOLED = ("put", "take", "selected")
"""The kinds that share the connections of `pool_size`."""
READING_WORKLOADS = ("read", "drain")
BARE_WORKLOADS = ("put", "put-read")
BLOCKING_WORKLOADS = ("put", "put-read", "read", "drain")
"""A blocking client does one thing at a time: it can neither wait for messages nor receive pushed ones."""


@dataclass(frozen=True, slots=True)
class Window:
    """The measured part of a run, in seconds since its beginning."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.begin


class RunSettings(BaseModel):
    """The settings of one run. A name ends with its unit; a name without a unit is a count."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    # --- the load ------------------------------------------------------------------------------
    workload: WorkloadName = Field("mix", description="What the clients do.")
    clients: int = Field(36, ge=1, le=10_000, description="Clients, each with a connection of its own.")
    subscribers: int = Field(8, ge=0, description="How many of the clients subscribe (fan-out).")
    away: int = Field(0, ge=0, description="More subscriptions, whose clients are not connected (fan-out).")
    consumers: int = Field(4, ge=1, description="How many of the clients consume (consume).")
    in_flight: int = Field(1, ge=1, le=1024, description="Requests in flight on each connection.")
    processes: int = Field(2, ge=1, le=64, description="Processes that generate load.")
    loop: LoopName = Field(
        "closed",
        description="closed: a client sends its next request after the answer. open: requests are sent at "
        "scheduled times, and latency counts from these.",
    )
    rate: float | None = Field(None, gt=0, description="Requests a second of all clients (open loop).")
    arrivals: Arrivals = Field("poisson", description="The schedule of an open loop.")
    think_ms: float = Field(0.0, ge=0, description="Mean pause after each answer (closed loop).")
    think_spread: ThinkSpread = Field("exponential", description="The distribution of the pauses.")
    message_bytes: int = Field(200, ge=ENVELOPE_BYTES, le=8 << 20, description="Size of a body.")
    priority_spread: int = Field(1, ge=1, le=10, description="How many priorities are used, equally often.")
    keys: int = Field(0, ge=0, description="Partition keys of messages for consumers; 0 for none.")
    read_batch: int = Field(1, ge=1, le=1000, description="Messages that one read may return at most.")
    fetch_batch: int = Field(
        100, ge=1, le=1000, description="Messages that one get of a topic may return at most."
    )
    credit: int = Field(256, ge=1, description="Messages that a consumer may hold at a time.")
    queues: int = Field(1, ge=1, le=1000, description="Queues, or topics, over which clients are spread.")
    backlog: int = Field(0, ge=0, description="Messages that wait in the queues before the run.")
    backlog_priority: int | None = Field(
        None, ge=1, le=10, description="Priority of the whole backlog; by default as in the load."
    )
    delivery: Delivery = Field("once", description="once: exactly once. fast: without records.")
    client: ClientKind = Field(
        "asyncio", description="Which client library; with blocking, each process has one client."
    )
    state: bool = Field(False, description="Clients have a durable state (state_dir).")
    bare_batch: int | None = Field(
        None,
        ge=1,
        le=2000,
        description="One process calls the procedures by asyncpg, without the service or the client library, "
        "with this many requests a call.",
    )

    # --- the service ---------------------------------------------------------------------------
    middlewares: int = Field(1, ge=1, le=64, description="Middleware processes.")
    workers: int | None = Field(
        None, ge=1, le=64, description="Concurrent calls for each kind of request that is batched."
    )
    pool_size: int | None = Field(
        None,
        ge=3,
        le=192,
        description="Connections of a middleware for puts, reads and selective reads together, in equal "
        "shares; another way to set the number of workers.",
    )
    max_batch: int | None = Field(None, ge=1, description="Requests in one call; 1 switches batching off.")
    history: History = Field("metadata", description="What queues keep of finished messages.")
    old_snapshot: bool = Field(
        False, description="A session holds a snapshot in which it has read every table."
    )

    # --- the run -------------------------------------------------------------------------------
    duration_s: float = Field(30.0, gt=0, description="Length of the measured part.")
    warm_up_s: float = Field(5.0, ge=0, description="Length of the load before it, which is not measured.")
    cool_down_s: float = Field(1.0, ge=0, description="Length of the load after it, which is not measured.")
    sample_every: int = Field(
        100, ge=1, description="Keep one in this many requests of each kind as a sample."
    )
    phase_every: int = Field(
        100, ge=0, description="A middleware times the phases of one in this many requests; 0 for none."
    )
    wait_samples_per_s: float = Field(
        5.0, ge=0, le=100, description="Samples of the server's wait events a second; 0 for none."
    )

    @property
    def total_s(self) -> float:
        """Length of the load, in seconds."""
        return self.warm_up_s + self.duration_s + self.cool_down_s

    @property
    def window(self) -> Window:
        """The measured part: the load without warm-up and cool-down."""
        return Window(self.warm_up_s, self.warm_up_s + self.duration_s)

    @property
    def sends(self) -> bool:
        """Whether any client sends on its own, rather than only taking messages."""
        served = {"fan-out": self.subscribers, "consume": self.consumers}.get(self.workload, 0)
        return self.workload not in (*READING_WORKLOADS, "idle") and served < self.clients

    @model_validator(mode="after")
    def _check_loop(self) -> Self:
        if self.loop == "open":
            if self.rate is None:
                raise ValueError("loop = open requires a rate")
            if not self.sends:
                raise ValueError(f"the workload {self.workload} sends nothing, so it has no open loop")
            if self.think_ms:
                raise ValueError("think_ms requires loop = closed; in an open loop, rate sets the pace")
        elif self.rate is not None:
            raise ValueError("rate requires loop = open")
        return self

    @model_validator(mode="after")
    def _check_clients(self) -> Self:
        least = {"pairs": 2, "pool": 2, "mix": MIX_STEP, "one-way": 2}
        if self.clients < least.get(self.workload, 1):
            raise ValueError(f"the workload {self.workload} needs at least {least[self.workload]} clients")
        if self.queues > self.clients:
            raise ValueError(f"{self.queues} queues are too many for {self.clients} clients")
        for workload, name in (("fan-out", "subscribers"), ("consume", "consumers")):
            if self.workload == workload and getattr(self, name) > self.clients:
                raise ValueError(f"{name} ({getattr(self, name)}) must not exceed clients ({self.clients})")
        if not self.sends and self.workload != "idle" and not self.backlog:
            raise ValueError(f"the workload {self.workload} needs a backlog if no client sends")
        return self

    @model_validator(mode="after")
    def _check_clients_kind(self) -> Self:
        if self.bare_batch is not None:
            if self.workload not in BARE_WORKLOADS:
                raise ValueError(f"bare_batch requires a workload of {', '.join(BARE_WORKLOADS)}")
            if self.loop == "open" or self.client == "blocking" or self.state or self.delivery != "once":
                raise ValueError("bare_batch allows neither loop = open nor settings of the client library")
        if self.client == "blocking":
            if self.workload not in BLOCKING_WORKLOADS or self.loop == "open":
                raise ValueError("client = blocking requires loop = closed and a workload of puts and reads")
            if self.clients > self.processes or self.in_flight > 1:
                raise ValueError("client = blocking requires a process for each client, and in_flight = 1")
        if self.state and self.delivery == "fast":
            raise ValueError("state requires delivery = once")
        if self.away and self.workload != "fan-out":
            raise ValueError("away requires the workload fan-out, because it counts subscriptions")
        return self

    @model_validator(mode="after")
    def _check_rest(self) -> Self:
        if self.keys and self.workload != "consume":
            raise ValueError("keys requires the workload consume: only consumers get messages with keys")
        if self.workers is not None and self.pool_size is not None:
            raise ValueError("workers and pool_size set the same number; give only one of them")
        return self


def middleware_settings(settings: RunSettings) -> dict[str, str]:
    """Return the environment variables that set the middlewares' part of the settings."""
    chosen: dict[str, int] = {"phase_every": settings.phase_every}
    if settings.max_batch is not None:
        chosen["max_batch"] = settings.max_batch
    if settings.workers is not None:
        chosen |= {f"{kind}_workers": settings.workers for kind in GATHERED}
    if settings.pool_size is not None:
        share, rest = divmod(settings.pool_size, len(POOLED))
        chosen |= {f"{kind}_workers": share + (index < rest) for index, kind in enumerate(POOLED)}
    return {f"TELESTO_{name.upper()}": str(value) for name, value in chosen.items()}
