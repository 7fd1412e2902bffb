"""Events as objects, and stories read back from them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.mirror import catalogue, events
from forewarn.mirror.catalogue import NOTE_BYTES, Reason, clean
from forewarn.mirror.events import Target
from forewarn.mirror.metrics import Metrics
from forewarn.mirror.story import NOTHING, decode, encode
from tests.unit.mirror.sessions import Told, at, seen, warned

POD = Target("Pod", "team", "train-0", "u1")
JOB = Target("Job", "team", "train", "j1")


def told(*looks: dict[str, str]) -> Told:
    player = Told()
    for number, look in enumerate(looks):
        player.look(number, seen(look))
    return player


@given(st.text(max_size=3000))
def test_a_cleaned_text_is_one_printable_line_that_fits(text: str) -> None:
    cleaned = clean(text)
    assert len(cleaned.encode()) <= NOTE_BYTES
    assert cleaned.isprintable()


def test_a_text_is_cut_between_characters() -> None:
    assert clean("é" * 10, 10) == "é" * 3 + "…"
    assert clean("🎓🎓🎓", 10) == "🎓…"


def test_a_name_depends_on_uid_and_number_alone() -> None:
    first, second = told(warned(900), {}).notices
    same = events.of_pod(first, POD, "one")["metadata"]["name"]
    assert same == events.of_pod(first, POD, "two")["metadata"]["name"]
    assert same != events.of_pod(second, POD, "one")["metadata"]["name"]
    assert same != events.entry_name(Target("Pod", "team", "train-0", "u2"), 1)


def test_a_long_pod_name_still_makes_a_name() -> None:
    name = events.entry_name(Target("Pod", "team", "a" * 232 + ".b" * 10, "u1"), 1)
    assert len(name) <= 253
    assert ".." not in name


def stored(player: Told, job: Target | None = None) -> list[dict[str, Any]]:
    return [events.of_pod(notice, POD, "one", job) for notice in player.notices]


def test_the_newest_event_alone_tells_the_story() -> None:
    player = told(warned(900), warned(1200), {}, warned(900))
    for kept in (stored(player), stored(player)[-1:], list(reversed(stored(player)))):
        assert events.recover(kept)["team", "u1"].story == player.story


@pytest.mark.parametrize(
    "forge",
    [
        lambda event: event.update(reportingController="somebody"),
        lambda event: event["metadata"]["annotations"].update({events.STORY: "{"}),
        lambda event: event["metadata"]["annotations"].update({events.STORY: json.dumps({"entry": -1})}),
        lambda event: event["metadata"].update(annotations=None),
        lambda event: event["metadata"].update(namespace="other"),
        lambda event: event.update(regarding=None),
        lambda event: event["regarding"].update(name="../../../secrets"),
        lambda event: event["regarding"].update(name="a?watch=true"),
        lambda event: event["regarding"].update(name=""),
        lambda event: event["regarding"].update(uid=""),
    ],
)
def test_what_is_not_ours_is_passed_over(forge: Any) -> None:
    event = stored(told(warned(900)))[0]
    event["metadata"]["annotations"] |= {events.ON_JOB: "true", events.JOB: "train/j1"}
    assert len(events.untold_jobs([event], at(-60))) == 1
    forge(event)
    assert events.recover([event]) == {}
    assert events.untold_jobs([event], at(-60)) == []
    assert events.untold_jobs([{**event, "eventTime": None}], at(-60)) == []


@pytest.mark.parametrize("instant", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59Z"])
@pytest.mark.parametrize("name", ["first_seen", "changed_at", "told_at", "idle_told_at"])
def test_a_forged_instant_at_the_end_of_the_calendar_is_no_story(name: str, instant: str) -> None:
    assert decode(json.dumps({"entry": 1, name: instant})) is None


def test_an_event_of_another_namespace_says_nothing_about_a_pod() -> None:
    """Whoever may write Events in one namespace must not silence a session of another."""
    honest = stored(told(warned(900)))
    forged = json.loads(json.dumps(honest[0]))
    forged["metadata"]["namespace"] = forged["regarding"]["namespace"] = "elsewhere"
    forged["metadata"]["annotations"][events.STORY] = json.dumps({"entry": 1000, "over": "ended"})
    assert events.recover([*honest, forged])["team", "u1"].story.entry == 1


def test_a_job_that_was_not_told_is_told_after_a_restart() -> None:
    player = told(warned(900), warned(1200), {})
    kept = stored(player, JOB)
    since = at(0) - timedelta(minutes=15)
    missing = events.untold_jobs(kept, since)
    assert [notice.reason for notice, _, _ in missing] == [
        Reason.TerminationWarning,
        Reason.TerminationWarningWithdrawn,
    ]
    assert {(pod, job) for _, pod, job in missing} == {(POD, JOB)}
    copies = [events.of_job(notice, job, pod, "one") for notice, pod, job in missing]
    assert events.untold_jobs([*kept, *copies], since) == []
    assert events.untold_jobs(kept, at(60)) == []
    assert events.recover(kept)["team", "u1"].job == ("train", "j1")


def test_a_job_whose_copy_has_expired_is_not_told_again() -> None:
    kept = stored(told(warned(900)), JOB)
    story = events.story_of(kept[0])
    assert story is not None
    kept[0]["metadata"]["annotations"][events.STORY] = encode(replace(story, restated=1))
    assert events.untold_jobs(kept, at(0) - timedelta(minutes=15)) == []


def test_every_reason_has_an_example_that_fits() -> None:
    for reason in Reason:
        assert "{" not in reason.example
        assert len(reason.example.encode()) <= NOTE_BYTES
        assert f"`{reason.name}`" in catalogue.markdown()


def test_every_metric_has_a_help_text() -> None:
    metrics = Metrics()
    assert all(row.help for row in metrics.rows)
    assert NOTHING.entry == 0
