"""The verbs of a scenario, in one table: what each is called, takes, does and waits for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forewarn import contract
from forewarn.simulator import checks, making, model, values

Read = Callable[[str], Any]
"""Reads a scalar's text; raises ``ValueError`` with what is allowed."""


@dataclass(frozen=True)
class Field:
    """One thing that a verb takes; ``read`` makes a value of the text, of ``default`` too."""

    name: str
    read: Read
    help: str
    default: str | None = None
    required: bool = False


@dataclass(frozen=True)
class Verb:
    """One verb. ``short`` names the field that a bare value fills; ``shape`` says how its value is written.

    ``build`` raises ``ValueError`` with what is allowed.
    """

    name: str
    help: str
    build: Callable[[making.Given], making.Made]
    example: str
    fields: tuple[Field, ...] = ()
    short: str | None = None
    shape: str = "fields"
    expectation: bool = False


def _within(default: str) -> Field:
    return Field("within", values.span, "how long it may take to come true", default)


_CONTAINER = Field("container", str, "the container; each that applies where left out")
_RISK = Field("risk", values.risk, "share of the candidates that must go", "1.00")
_MESSAGE = Field("message", str, "the sentence for people; a usual one with the local time where left out")


def _yes(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError("allowed: true or false")
    return value == "true"


def _podinfo_file(value: str) -> str:
    if value not in (*contract.PODINFO_NAMES, contract.WHOLE_MAP_FILE):
        raise ValueError(f"allowed: {', '.join((*contract.PODINFO_NAMES, contract.WHOLE_MAP_FILE))}")
    return value


def _event_type(value: str) -> str:
    if value not in ("Normal", "Warning"):
        raise ValueError("allowed: Normal or Warning")
    return value


_EVENT_FIELDS = (
    Field("reason", str, "the Event's reason", required=True),
    Field("note", str, "a text that the note must hold"),
    Field("type", _event_type, "Normal or Warning"),
    Field("from", str, "the reporting controller", contract.REPORTING_CONTROLLER),
)

VERBS = (
    Verb(
        "create",
        "create the pod and wait until its containers run",
        lambda _: making.Made(model.Create(), model.Started()),
        "create:",
        (Field("within", values.span, "how long its start may take", "3m"),),
        "within",
    ),
    Verb(
        "warn",
        "write a termination warning: all three keys",
        making.warn,
        "warn: {at: now+15m, risk: 0.33}",
        (Field("at", values.instant, "the earliest stop", required=True), _RISK, _MESSAGE),
        "at",
    ),
    Verb(
        "change",
        "change what is given of a warning",
        making.change,
        "change: {risk: 1.00}",
        (
            Field("at", values.instant, "the earliest stop"),
            Field("risk", values.risk, "share of the candidates that must go"),
            Field("message", str, "the sentence for people; follows a new instant where left out"),
        ),
        "at",
    ),
    Verb("withdraw", "remove the three keys of the warning", making.withdraw, "withdraw:"),
    Verb(
        "leave-stale",
        "write nothing until the warning's instant is past and the pod still runs",
        making.leave_stale,
        "leave-stale: 10s",
        (Field("by", values.span, "how long past it", "0s"),),
        "by",
    ),
    Verb(
        "guarantee",
        "write the guarantee's end",
        making.guarantee,
        "guarantee: now+2h",
        (
            Field("until", values.instant, "the guarantee's end", required=True),
            Field("status", str, "guarantee-status, which lags in practice; not written where left out"),
        ),
        "until",
    ),
    Verb(
        "queue",
        "write a warning inside the guarantee",
        making.queue,
        "queue: {until: now+1h}",
        (
            Field("until", values.instant, "the guarantee's end", required=True),
            Field("at", values.instant, "the earliest stop; the guarantee's end where left out"),
            _RISK,
            _MESSAGE,
        ),
        "until",
    ),
    Verb(
        "idle",
        "write the idle culler's status and deadline",
        making.idle,
        "idle: {status: warning, deadline: now+30m}",
        (
            Field("status", str, "ok, idle or warning", required=True),
            Field("deadline", values.instant, "the projected cull; removed where left out"),
        ),
        "status",
    ),
    Verb(
        "annotate",
        "write any annotations; now+15m and start+90s become instants",
        making.annotate,
        "annotate: {reservation-kind: booking, example.org/note: hello}",
        shape="annotations",
    ),
    Verb("remove", "remove any annotations", making.remove, "remove: [guaranteed-until]", shape="names"),
    Verb(
        "preempt",
        "delete the pod in the ordinary way, with its own grace; the controller's Event says Preempted",
        lambda _: making.Made(model.Delete("Preempted", "A booking needs the GPU of this session.")),
        "preempt:",
    ),
    Verb(
        "evict",
        "the same delete, of which no warning is given: the reservation was cancelled",
        lambda _: making.Made(model.Delete("ReservationCancelled", "The reservation of this session was cancelled.")),
        "evict:",
    ),
    Verb(
        "run",
        "run a program on this machine with KUBECONFIG set; it must exit 0",
        lambda v: making.Made(model.Run(tuple(v["command"]))),
        "run: [kubectl, get, nodes]",
        shape="command",
    ),
    Verb(
        "expect-file",
        "a podinfo file holds what the scenario wrote last, or what is given",
        making.expect_file,
        "expect-file: termination-warning-at",
        (
            Field("name", _podinfo_file, "the file", required=True),
            Field("holds", str, "exactly this text"),
            Field("contains", str, "this text somewhere"),
            Field("empty", _yes, "true: nothing, as for an absent annotation"),
            _CONTAINER,
            _within("2m"),
            Field("for", values.span, "how long it must stay so"),
        ),
        "name",
        expectation=True,
    ),
    Verb(
        "expect-event",
        "an Event on the pod; with count, so many and no more",
        making.expect_event,
        "expect-event: {reason: TerminationWarning, count: 1}",
        (
            *_EVENT_FIELDS,
            Field("count", values.whole, "how many; one or more where left out"),
            _within("30s"),
            Field("for", values.span, "how long it must stay so"),
        ),
        "reason",
        expectation=True,
    ),
    Verb(
        "expect-no-event",
        "no such Event on the pod, neither now nor for a while",
        making.expect_no_event,
        "expect-no-event: {reason: TerminationWarning, for: 10s}",
        (*_EVENT_FIELDS, Field("for", values.span, "how long none may come", "5s")),
        "reason",
        expectation=True,
    ),
    Verb(
        "expect-signal",
        "SIGTERM reached the container soon after the delete (its log says so)",
        lambda v: making.Made(None, model.Signalled(v["log"], v["after"], v["container"])),
        "expect-signal: 5s",
        (
            Field("after", values.span, "how long after the delete, at most", "5s"),
            Field("log", values.pattern, "regular expression of the log line", checks.SIGNAL),
            _CONTAINER,
        ),
        "after",
        expectation=True,
    ),
    Verb(
        "expect-exit",
        "a container ended with this code",
        lambda v: making.Made(None, model.Exited(v["code"], v["container"])),
        "expect-exit: 75",
        (Field("code", values.exit_code, "the exit code", required=True), _CONTAINER, _within("60s")),
        "code",
        expectation=True,
    ),
    Verb(
        "expect-grace",
        "the grace that the pod was given, and how much of it was used",
        making.expect_grace,
        "expect-grace: {seconds: 600, lasted-at-most: 30s}",
        (
            Field("seconds", values.whole, "terminationGracePeriodSeconds"),
            Field("lasted-at-least", values.span, "from the delete to the last container's end"),
            Field("lasted-at-most", values.span, "from the delete to the last container's end"),
            _within("60s"),
        ),
        "seconds",
        expectation=True,
    ),
    Verb(
        "expect-log",
        "a line of a container's log holds a text",
        lambda v: making.Made(None, model.LogHas(v["text"], v["container"])),
        "expect-log: {text: unit 3, container: main}",
        (Field("text", str, "the text", required=True), _CONTAINER, _within("60s")),
        "text",
        expectation=True,
    ),
    Verb(
        "expect-gone",
        "the pod is no longer there",
        lambda _: making.Made(None, model.Gone()),
        "expect-gone:",
        (_within("60s"),),
        "within",
        expectation=True,
    ),
)

BY_NAME = {verb.name: verb for verb in VERBS}

STEP_KEYS = ("at", "pod", "say")
"""What every step may have beside its verb."""


def markdown() -> str:
    """Return the table of verbs for the docs."""
    lines = ["| verb | what it does | takes |", "|---|---|---|"]
    for verb in VERBS:
        taken = "; ".join(
            f"`{field.name}`{'' if field.required else f' ({field.default})' if field.default else '?'}: {field.help}"
            for field in verb.fields
        )
        shapes = {"annotations": "names and values", "names": "a list of names", "command": "a list of words"}
        takes = (taken or shapes.get(verb.shape, "nothing")).replace("|", "\\|")
        lines.append(f"| `{verb.example.replace('|', chr(92) + '|')}` | {verb.help} | {takes} |")
    return "\n".join(lines) + "\n"
