"""The counters of a middleware: plain integers, read when the metrics are requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from telesto.middleware.scheduling.requests import Kind


@dataclass(slots=True)
class CallCounts:
    """Calls to the database for requests of one kind: their number, requests and time, in seconds."""

    calls: int = 0
    requests: int = 0
    seconds: float = 0.0


class Counters:
    """Counters of one middleware, and gauges that are computed when they are read.

    Attributes:
        of_kind: the calls of each kind of requests.
        connections_total: accepted connections.
        refused_total: requests refused before they were executed, and connections, by error code.
        failed_logins_total: logins that failed, by reason.
        aborted_total: connections closed without an answer, by reason.
        loop_lag_s: the last lag of the event loop.
        loop_lag_max_s: the largest lag of the event loop.
        notifies_total: calls that notified other middlewares of messages.
        notified_total: notifications from other middlewares.
        dropped_wake_ups_total: wake-ups for others beyond notify_entries; their sweeps find the messages.
        claims_total: calls that claimed for consumers, including those of puts.
        delivered_total: messages pushed to consumers.
        recovered_total: those of them that a lost call had claimed.
        late_answers_total: answers of consumers later than late_after_ms.
        slow_consumers_total: how often a consumer became slow.
        failing_consumers_total: how often a consumer began to fail everything.
        inactive_consumers_total: consumers that were ended because they failed.
        clock_steps_total: steps of the database's clock that this middleware detected first.
    """

    def __init__(self) -> None:
        self.connections_total = 0
        self.refused_total: dict[int, int] = {}
        self.failed_logins_total: dict[str, int] = {}
        self.aborted_total: dict[str, int] = {}
        self.loop_lag_s = 0.0
        self.loop_lag_max_s = 0.0
        self.notifies_total = 0
        self.notified_total = 0
        self.dropped_wake_ups_total = 0
        self.claims_total = 0
        self.delivered_total = 0
        self.recovered_total = 0
        self.late_answers_total = 0
        self.slow_consumers_total = 0
        self.failing_consumers_total = 0
        self.inactive_consumers_total = 0
        self.clock_steps_total = 0
        self.of_kind = {kind: CallCounts() for kind in Kind}
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def refused(self, code: int) -> None:
        """Counts a request that was refused before it was executed."""
        self.refused_total[code] = self.refused_total.get(code, 0) + 1

    def login_failed(self, reason: str) -> None:
        """Counts a login that failed."""
        self.failed_logins_total[reason] = self.failed_logins_total.get(reason, 0) + 1

    def aborted(self, reason: str) -> None:
        """Counts a connection that was closed without an answer."""
        self.aborted_total[reason] = self.aborted_total.get(reason, 0) + 1

    def gauge(self, name: str) -> float:
        """What a gauge shows now."""
        return self.gauges[name][1]()

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics."""
        yield from self._calls_metrics()
        refused = CounterMetricFamily(
            "telesto_refused", "Requests refused before they were executed, and connections.", labels=["code"]
        )
        for code, count in self.refused_total.items():
            refused.add_metric([str(code)], count)
        yield refused
        aborted = CounterMetricFamily(
            "telesto_connections_aborted", "Connections closed without an answer.", labels=["reason"]
        )
        for reason, count in self.aborted_total.items():
            aborted.add_metric([reason], count)
        yield aborted
        failed = CounterMetricFamily("telesto_failed_logins", "Logins that failed.", labels=["reason"])
        for reason, count in self.failed_logins_total.items():
            failed.add_metric([reason], count)
        yield failed
        for name, (doc, value) in self._counters().items():
            yield CounterMetricFamily(f"telesto_{name}", doc, value=value)
        for name, (doc, read) in self.gauges.items():
            yield GaugeMetricFamily(f"telesto_{name}", doc, value=read())

    def _calls_metrics(self) -> Iterator[Metric]:
        calls = CounterMetricFamily("telesto_calls", "Calls to the database.", labels=["kind"])
        requests = CounterMetricFamily("telesto_requests", "Requests executed.", labels=["kind"])
        seconds = CounterMetricFamily("telesto_call_seconds", "Time spent in calls.", labels=["kind"])
        for kind, counts in self.of_kind.items():
            label = [kind.name.lower()]
            calls.add_metric(label, counts.calls)
            requests.add_metric(label, counts.requests)
            seconds.add_metric(label, counts.seconds)
        yield calls
        yield requests
        yield seconds

    def _counters(self) -> dict[str, tuple[str, float]]:
        return {
            "connections_accepted": ("Accepted connections.", self.connections_total),
            "notifies": ("Calls that notified other middlewares of messages.", self.notifies_total),
            "notified": ("Notifications from other middlewares.", self.notified_total),
            "claims": ("Calls that claimed messages for consumers.", self.claims_total),
            "delivered": ("Messages pushed to consumers.", self.delivered_total),
            "recovered": ("Messages that a lost call had claimed.", self.recovered_total),
            "late_answers": ("Answers of consumers that were late.", self.late_answers_total),
            "slow_consumers": ("How often a consumer became slow.", self.slow_consumers_total),
            "failed_consumers": (
                "How often a consumer began to fail everything.",
                self.failing_consumers_total,
            ),
            "inactive_consumers": ("Consumers ended for their failures.", self.inactive_consumers_total),
            "clock_steps": ("Steps of the database's clock.", self.clock_steps_total),
            "dropped_wake_ups": (
                "Wake-ups for others beyond notify_entries.",
                self.dropped_wake_ups_total,
            ),
        }


class CountersCollector(Collector):
    """Lets prometheus_client read the counters."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics."""
        return self._counters.collect()
