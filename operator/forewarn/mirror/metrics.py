"""What an administrator can measure: names, HELP texts and the numbers behind /metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from forewarn.mirror.catalogue import OPENINGS, Reason

if TYPE_CHECKING:
    from forewarn.contract import Keys
    from forewarn.mirror.notices import Notice
    from forewarn.mirror.pods import Seen

NOTICE_BUCKETS = (0.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0)
LAG_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0)

ENDINGS = {Reason.TerminationWarningWithdrawn: "withdrawn", Reason.SessionStopping: "stopped"}


@dataclass(frozen=True)
class Metric:
    """One row of the documentation's table."""

    name: str
    kind: str
    labels: str
    help: str


class Metrics:
    """Every metric of the mirror, on a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.rows: list[Metric] = []
        self.sessions = self._gauge("sessions", "Sessions followed, by the state of their warning.", "state")
        self.leading = self._gauge("leading", "1 if this mirror writes Events, 0 if it stands by.")
        self.episodes = self._counter(
            "episodes",
            "Warning episodes, by what happened to them: opened, withdrawn, stale, stopped, ended.",
            "outcome",
        )
        self.notice_to_warning = self._histogram(
            "notice_seconds", "From a warning first seen to its termination-warning-at.", NOTICE_BUCKETS
        )
        self.notice_to_stop = self._histogram(
            "notice_before_stop_seconds", "From a warning first seen to the delete of the pod.", NOTICE_BUCKETS
        )
        self.lag = self._histogram("write_lag_seconds", "From an observation to its Event being stored.", LAG_BUCKETS)
        self.events = self._counter("events", "Events stored, by reason.", "reason")
        self.restatements = self._counter("restatements", "Events restated through their series.")
        self.conflicts = self._counter("event_conflicts", "Event numbers that another writer had taken.")
        self.refusals = self._counter(
            "event_refusals",
            "Event writes that were refused and are tried again, by namespace and code.",
            "namespace",
            "code",
        )
        self.dropped = self._counter("events_dropped", "Events given up as invalid or as too many for one pod.")
        self.owed = self._gauge("events_owed", "Events decided and not yet stored.")
        self.behind = self._gauge("behind_seconds", "Age of the oldest Event that is decided and not yet stored.")
        self.refusing = self._gauge("namespaces_refusing", "Namespaces that refuse Events now.")
        self.unreadable = self._counter("unreadable_values", "Annotations that could not be read, by key.", "key")
        self.podinfo_missing = self._counter("podinfo_missing", "Sessions that could not read a warning.")
        self.watch_age = self._gauge("watch_age_seconds", "Since the slowest watch stream last showed a sign of life.")
        self.watch_restarts = self._gauge("watch_restarts", "Times that the watch ended and was started again.")
        self.clock_offset = self._gauge(
            "clock_offset_seconds", "By how much our clock is ahead of the API server's (it is taken out)."
        )

    def told(self, notice: Notice, seen: Seen | None, keys: Keys) -> None:
        """Count a notice; ``seen`` is its pod, if there is more of it than Events."""
        reason, story = notice.reason, notice.story
        first = story.first_seen
        if reason is Reason.TerminationWarningStale:
            self.episodes.labels("stale").inc()
        if reason is Reason.PodinfoMissing:
            self.podinfo_missing.inc()
        if reason is Reason.AnnotationUnreadable:
            self.unreadable.labels(keys.key(story.unreadable[-1])).inc()
        if not notice.on_job:
            return
        if reason in OPENINGS:
            self.episodes.labels("opened").inc()
            if seen and seen.facts.warning_at and first:
                self.notice_to_warning.observe((seen.facts.warning_at - first).total_seconds())
        else:
            self.episodes.labels(ENDINGS.get(reason, "ended")).inc()
        if reason is Reason.SessionStopping and first and seen and seen.deleted:
            self.notice_to_stop.observe((seen.deleted - first).total_seconds())

    def _add(self, name: str, kind: str, help_text: str, labels: tuple[str, ...]) -> None:
        full = f"forewarn_mirror_{name}" + ("_total" if kind == "counter" else "")
        self.rows.append(Metric(full, kind, ", ".join(labels), help_text))

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        metric = Gauge(f"forewarn_mirror_{name}", help_text, labels, registry=self.registry)
        self._add(name, "gauge", help_text, labels)
        return metric

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        metric = Counter(f"forewarn_mirror_{name}", help_text, labels, registry=self.registry)
        self._add(name, "counter", help_text, labels)
        return metric

    def _histogram(self, name: str, help_text: str, buckets: tuple[float, ...]) -> Histogram:
        metric = Histogram(f"forewarn_mirror_{name}", help_text, (), registry=self.registry, buckets=buckets)
        self._add(name, "histogram", help_text, ())
        return metric


def markdown() -> str:
    """Return the table of every metric, in Markdown."""
    rows = ["| Metric | Type | Labels | Meaning |", "|---|---|---|---|"]
    rows += [f"| `{row.name}` | {row.kind} | {row.labels} | {row.help} |" for row in Metrics().rows]
    return "\n".join(rows) + "\n"
