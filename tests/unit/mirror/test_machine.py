"""The machine under any sequence of observations, restarts and clock steps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.mirror import events
from forewarn.mirror.catalogue import NOTE_BYTES, OPENINGS, Reason
from forewarn.mirror.episodes import step
from forewarn.mirror.events import Target
from forewarn.mirror.notices import Around, Notice, Restatement
from forewarn.mirror.pods import Ended, Seen
from forewarn.mirror.story import NOTHING, Story, decode, encode
from forewarn.session import read_values
from tests.unit.mirror.sessions import RULES, at, seen, text

POD = Target("Pod", "team", "train", "u1")
instants = st.integers(-7200, 7200).map(text)
hostile = st.one_of(st.text(max_size=60), st.sampled_from(["", " ", "tomorrow", "\x1b[2J", "{}", "\ud83d"]))
contents = st.fixed_dictionaries(
    {},
    optional={
        "guaranteed-until": st.one_of(instants, hostile),
        "termination-warning-at": st.one_of(instants, instants, hostile),
        "termination-warning-risk": st.sampled_from(["0.10", "0.33", "0.75", "1.00", "2", "x"]),
        "termination-warning-message": hostile,
        "idle-gpu-status": st.sampled_from(["ok", "idle", "warning", "?"]),
        "idle-gpu-cull-deadline": st.one_of(instants, hostile),
    },
)


@dataclass(frozen=True)
class Look:
    """One observation: what is seen, after how many seconds (a clock step can be negative), and if after a restart."""

    after: float
    seen: Seen
    around: Around
    restart: bool


def _ending(draw: st.DrawFn) -> dict[str, object]:
    kind = draw(st.sampled_from(["", "", "", "", "", "deleted", "ended"]))
    if kind == "deleted":
        return {"deleted": at(draw(st.integers(0, 3600)))}
    if kind == "ended":
        reason = draw(st.sampled_from(["", "DeadlineExceeded", "Evicted"]))
        return {"ended": Ended("Failed", reason, at(draw(st.integers(0, 3600))))}
    return {}


@st.composite
def looks(draw: st.DrawFn) -> Look:
    after = draw(st.one_of(st.floats(0, 600), st.floats(0, 5), st.just(-300.0), st.just(4000.0)))
    observed = seen(
        draw(contents),
        limit_seconds=draw(st.sampled_from([None, 60, 3600])),
        sees_podinfo=draw(st.booleans()),
        **_ending(draw),
    )
    peers = draw(st.sampled_from([(), ("a",), ("a", "b", "c", "d")]))
    gone = at(0) if draw(st.integers(0, 9)) == 0 else None
    around = Around(peers, at(900) if peers else None, gone, draw(st.sampled_from([None, "", "Preempted"])))
    return Look(after, observed, around, draw(st.booleans()))


def play(sequence: list[Look], *, restarts: bool) -> tuple[list[Notice | Restatement], Story]:
    """Play a sequence; a restart forgets all but the Events, of which the older ones have expired."""
    story, told, now = NOTHING, list[Notice | Restatement](), 0.0
    stored: dict[str, dict[str, object]] = {}
    for look in sequence:
        now += look.after
        if restarts and look.restart and stored:
            recovered = events.recover(list(stored.values())[-1:])
            story = recovered["team", "u1"].story
        result = step(story, look.seen, look.around, at(now), RULES)
        again = step(result.story, look.seen, look.around, at(now), RULES)
        assert again.tell == (), "repeated, it tells nothing"
        assert again.story == result.story
        assert result.deadline is None or result.deadline > at(now)
        for said in result.tell:
            told.append(said)
            if isinstance(said, Notice):
                event = events.of_pod(said, POD, "test")
                assert event["metadata"]["name"] not in stored, "a name is used once"
                stored[event["metadata"]["name"]] = event
            else:
                name = events.entry_name(POD, said.story.current)
                event = stored.pop(name)
                patch = events.restatement(said)
                event["metadata"]["annotations"] |= patch["metadata"]["annotations"]  # type: ignore[index]
                stored[name] = event
        story = result.story
    return told, story


@given(st.lists(looks(), max_size=25))
@settings(max_examples=80, deadline=None)
def test_an_episode_has_one_opening_and_at_most_one_end(sequence: list[Look]) -> None:
    told, story = play(sequence, restarts=True)
    notices = [said for said in told if isinstance(said, Notice)]
    assert [notice.story.entry for notice in notices] == list(range(1, len(notices) + 1))
    on_job = [(notice.story.episode, notice.reason in OPENINGS) for notice in notices if notice.on_job]
    expected = [(number, opening) for number in range(1, story.episode + 1) for opening in (True, False)]
    assert on_job == expected[: len(on_job)], "opened, ended, opened, ended, …, numbered from 1"
    assert story.open == bool(len(on_job) % 2)
    last_words = [each for each in notices if each.reason in (Reason.SessionStopping, Reason.SessionEnded)]
    assert len(last_words) <= 1
    assert not last_words or notices[-1] is last_words[0]


@given(st.lists(looks(), max_size=25))
@settings(max_examples=50, deadline=None)
def test_a_note_fits_an_event_whatever_the_annotations_hold(sequence: list[Look]) -> None:
    for said in play(sequence, restarts=False)[0]:
        if isinstance(said, Notice):
            assert len(said.note.encode()) <= NOTE_BYTES
            assert said.note.isprintable()


@given(st.lists(looks(), min_size=1, max_size=15))
@settings(max_examples=50, deadline=None)
def test_nothing_is_said_that_the_observation_does_not_show(sequence: list[Look]) -> None:
    story, now = NOTHING, 0.0
    for look in sequence:
        now += look.after
        facts = look.seen.facts
        unreadable = {each.name for each in facts.unreadable}
        result = step(story, look.seen, look.around, at(now), RULES)
        reasons = [said.reason for said in result.tell if isinstance(said, Notice)]
        if Reason.TerminationWarningWithdrawn in reasons:
            assert facts.warning_at is None
            assert "termination-warning-at" not in unreadable
        if Reason.TerminationWarningStale in reasons:
            assert facts.warning_at is not None
            assert at(now) >= facts.warning_at + timedelta(seconds=60)
            assert facts.guaranteed_until is None or at(now) >= facts.guaranteed_until
        if Reason.TerminationWarning in reasons:
            assert facts.guaranteed_until is None or at(now) >= facts.guaranteed_until
        story = result.story


@given(st.lists(looks(), max_size=15))
@settings(max_examples=50, deadline=None)
def test_a_story_survives_its_event(sequence: list[Look]) -> None:
    _, story = play(sequence, restarts=False)
    assert decode(encode(story)) == story


@given(st.text(max_size=200))
def test_a_forged_story_is_nothing(forged: str) -> None:
    decoded = decode(forged)
    assert decoded is None or isinstance(decoded, Story)


@given(st.dictionaries(st.sampled_from(["entry", "state", "warning_at", "unreadable", "x"]), st.integers() | st.text()))
def test_a_forged_story_of_the_right_shape_breaks_nothing(values: dict[str, object]) -> None:
    import json

    decoded = decode(json.dumps(values))
    if decoded is not None:
        step(decoded, seen(), Around(), at(0), RULES)


def test_facts_are_read_as_the_pod_has_them() -> None:
    assert read_values({"termination-warning-at": text(0)}).warning_at == at(0)
