"""Which observation is news, and which is not."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from forewarn.mirror.episodes import ended_unobserved
from forewarn.mirror.notices import Around
from forewarn.mirror.pods import Ended
from forewarn.mirror.story import NOTHING
from tests.unit.mirror.sessions import T0, Told, at, seen, text, warned


def test_a_quiet_session_is_told_nothing() -> None:
    told = Told()
    assert told.look(0, seen()) == []
    assert told.deadline is None
    assert told.story == NOTHING


def test_a_warning_is_told_with_its_instant_its_distance_and_what_to_do() -> None:
    told = Told()
    assert told.look(0, seen(warned(840))) == ["TerminationWarning"]
    note = told.notices[0].note
    assert "2026-11-29 19:14:00 UTC (in 14 min)" in note
    assert "Save now" in note
    assert told.look(1, seen(warned(840))) == []


@pytest.mark.parametrize("moves", [[30, 0, 59, -59], [0, 59, 0, 59]])
def test_a_move_of_less_than_a_minute_is_no_news(moves: list[int]) -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    for number, move in enumerate(moves):
        assert told.look(number * 60 + 60, seen(warned(2000 - 1100 + move))) == []


def test_a_move_of_a_minute_is_told() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    assert told.look(5, seen(warned(960))) == ["TerminationWarningChanged"]
    assert "not 2026-11-29 19:15:00 UTC" in told.notices[-1].note


def test_back_and_forth_within_a_minute_is_one_event() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    for number in range(1, 10):
        told.look(number * 5, seen(warned(900 + 120 * (number % 2))))
    assert told.reasons == ["TerminationWarning", "TerminationWarningChanged"]
    assert told.look(50, seen(warned(900))) == []
    assert told.deadline == at(65)
    assert told.look(66, seen(warned(1020))) == []


def test_what_holds_when_the_minute_is_over_is_told() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    told.look(5, seen(warned(1200)))
    assert told.look(10, seen(warned(600))) == []
    assert told.look(65, seen(warned(600))) == ["TerminationWarningChanged"]


def test_a_risk_in_its_band_is_no_news_and_another_band_is() -> None:
    told = Told()
    told.look(0, seen(warned(900, "0.10")))
    assert told.look(10, seen(warned(900, "0.49"))) == []
    assert told.look(20, seen(warned(900, "0.50"))) == ["TerminationWarningChanged"]
    assert "the stop is likely" in told.notices[-1].note


def test_a_risk_that_arrives_later_or_goes_missing_is_no_news() -> None:
    told = Told()
    told.look(0, seen({"termination-warning-at": text(900)}))
    assert told.look(1, seen(warned(900, "0.90"))) == []
    assert told.look(2, seen(warned(900, "much"))) == ["AnnotationUnreadable"]
    assert told.look(3, seen(warned(900, "0.90"))) == []
    assert told.look(4, seen(warned(900, "1.00"))) == ["TerminationWarningChanged"]


def test_the_same_instant_again_is_a_second_episode() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    assert told.look(1, seen()) == ["TerminationWarningWithdrawn"]
    assert told.look(2, seen(warned(900))) == ["TerminationWarning"]
    assert [notice.story.episode for notice in told.notices] == [1, 1, 2]
    assert [notice.story.entry for notice in told.notices] == [1, 2, 3]


def test_an_unreadable_instant_is_not_a_withdrawal() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    assert told.look(1, seen({"termination-warning-at": "soon"})) == ["AnnotationUnreadable"]
    assert told.story.open
    assert told.look(2, seen({"termination-warning-at": "later"})) == []


def test_a_warning_goes_stale_by_the_clock_alone() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    assert told.deadline == at(960)
    assert told.look(959, seen(warned(900))) == []
    assert told.look(960, seen(warned(900))) == ["TerminationWarningStale"]
    assert told.look(961, seen(warned(910))) == []
    assert told.look(1500, seen(warned(2000))) == ["TerminationWarningChanged"]
    assert told.look(2060, seen(warned(2000))) == ["TerminationWarningStale"]


def test_a_warning_first_seen_when_it_is_stale_is_one_event() -> None:
    told = Told()
    assert told.look(1000, seen(warned(900))) == ["TerminationWarningStale"]
    assert told.notices[0].on_job


def test_a_warning_inside_the_guarantee_is_queued_whatever_guarantee_status_says() -> None:
    told = Told()
    facts = {"guaranteed-until": text(600), "guarantee-status": "overstay", **warned(600)}
    assert told.look(0, seen(facts)) == ["TerminationWarningQueued"]
    assert told.deadline == at(600)
    assert told.look(600, seen(facts)) == ["GuaranteeEnded", "TerminationWarning"]
    assert [notice.story.episode for notice in told.notices][::2] == [1, 1]


def test_an_extended_guarantee_is_told_once() -> None:
    told = Told()
    told.look(0, seen({"guaranteed-until": text(600)}))
    assert told.look(1, seen({"guaranteed-until": text(630)})) == []
    assert told.look(2, seen({"guaranteed-until": text(4200)})) == ["GuaranteeExtended"]
    assert told.look(3, seen({"guaranteed-until": text(4200)})) == []


def test_an_extension_that_withdraws_the_warning_is_one_sentence() -> None:
    told = Told()
    told.look(0, seen({"guaranteed-until": text(600), **warned(600)}))
    assert told.look(1, seen({"guaranteed-until": text(7200)})) == ["TerminationWarningWithdrawn"]
    assert "extended to 2026-11-29 21:00:00 UTC" in told.notices[-1].note
    assert told.look(2, seen({"guaranteed-until": text(7200)})) == []


def test_an_extension_that_queues_the_warning_is_one_sentence() -> None:
    told = Told()
    told.look(0, seen({"guaranteed-until": text(-5), **warned(600)}))
    facts = {"guaranteed-until": text(7200), **warned(600)}
    assert told.look(1, seen(facts)) == ["GuaranteeExtended"]
    assert "waits for its end" in told.notices[-1].note
    assert told.look(2, seen(facts)) == []


def test_the_end_of_a_guarantee_that_is_long_over_is_old_news() -> None:
    told = Told()
    assert told.look(0, seen({"guaranteed-until": text(-3600)})) == []
    assert told.look(1, seen({"guaranteed-until": text(-3600)})) == []


def test_the_runtime_limit_is_told_fifteen_minutes_before() -> None:
    told = Told()
    assert told.look(0, seen(limit_seconds=21600)) == []
    assert told.deadline == at(21600 - 900)
    assert told.look(21600 - 900, seen(limit_seconds=21600)) == ["RuntimeLimitNear"]
    assert told.look(21600 - 800, seen(limit_seconds=21600)) == []


def test_an_idle_warning_is_told_once_and_its_end_once() -> None:
    told = Told()
    assert told.look(0, seen({"idle-gpu-status": "ok"})) == []
    for number in range(5):
        # The deadline is computed anew every five minutes.
        facts = {"idle-gpu-status": "warning", "idle-gpu-cull-deadline": text(1800 + 300 * number)}
        told.look(300 * number, seen(facts))
    assert told.reasons == ["IdleCullWarning"]
    assert told.look(1600, seen({"idle-gpu-status": "warning", "idle-gpu-cull-deadline": text(1700)})) == [
        "IdleCullWarning"
    ]
    assert told.look(1601, seen({"idle-gpu-status": "ok"})) == ["IdleCullWithdrawn"]
    assert told.look(1602, seen({"idle-gpu-status": "ok"})) == []


def test_a_deadline_without_its_status_is_no_end_of_the_idle_warning() -> None:
    told = Told()
    told.look(0, seen({"idle-gpu-status": "warning", "idle-gpu-cull-deadline": text(1800)}))
    assert told.look(1, seen({"idle-gpu-cull-deadline": text(1800)})) == []
    assert told.look(2, seen()) == ["IdleCullWithdrawn"]


def test_a_session_without_podinfo_is_told_when_it_is_new_or_warned() -> None:
    told = Told()
    assert told.look(0, seen(sees_podinfo=False)) == ["PodinfoMissing"]
    assert told.look(1, seen(sees_podinfo=False)) == []
    old = Told()
    assert old.look(7200, seen(sees_podinfo=False)) == []
    assert old.look(7201, seen(warned(9000), sees_podinfo=False)) == ["PodinfoMissing", "TerminationWarning"]


def test_an_unmarked_running_pod_is_told_of_its_peers_once() -> None:
    told = Told()
    around = Around(peers=("train-1", "train-2", "train-3", "train-4"), peers_at=at(900))
    assert told.look(0, seen(), around) == ["PeerWarned"]
    assert "train-1, train-2, train-3 and 1 more" in told.notices[0].note
    assert told.look(1, seen(), around) == []
    assert told.look(2, seen()) == []
    assert told.look(3, seen(), around) == ["PeerWarned"]
    assert Told().look(0, seen(started=None), around) == []


def test_an_open_episode_is_restated_on_its_event() -> None:
    told = Told()
    told.look(0, seen(warned(7200)))
    told.look(60, seen(warned(9000)))
    assert told.deadline == at(1860)
    assert told.look(1860, seen(warned(9000))) == []
    assert told.restated == 1
    assert told.story.current == 2
    assert told.story.entry == 2


def test_a_delete_is_the_last_word() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    going = seen(warned(900), deleted=at(960), grace_seconds=600)
    assert told.look(961, going) == []
    assert told.look(963, going, Around(cause="Preempted")) == ["SessionStopping"]
    note = told.notices[-1].note
    assert "told to stop at 2026-11-29 19:16:00 UTC; it was warned 16 min before" in note
    assert "10 min of grace, until 2026-11-29 19:26:00 UTC" in note
    assert "Preempted" in note
    assert told.look(964, seen(deleted=at(960)), Around(cause="")) == []


def test_a_delete_seen_late_states_its_true_instant() -> None:
    told = Told()
    told.look(120, seen(deleted=at(0)), Around(cause=""))
    assert "stop at 2026-11-29 19:00:00 UTC (seen 2 min later); it was not warned" in told.notices[0].note


@pytest.mark.parametrize(
    ("end", "reason", "said"),
    [
        ({"deleted": at(90)}, "SessionStopping", "it was warned 2 min before, of a stop from"),
        ({"ended": Ended("Succeeded", "", at(90))}, "SessionEnded", "Succeeded; it was warned of a stop from"),
    ],
)
def test_a_warning_that_went_with_the_session_is_not_called_withdrawn(
    end: dict[str, Any], reason: str, said: str
) -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    assert told.look(100, seen(**end), Around(cause="")) == [reason]
    assert said in told.notices[-1].note
    assert "on, a warning that was taken back by then" in told.notices[-1].note
    assert not told.story.open


def test_a_pod_that_never_had_a_node_goes_quietly() -> None:
    assert Told().look(1, seen(deleted=at(0), scheduled=False), Around(cause="")) == []


def test_a_terminal_phase_ends_an_episode_and_says_which() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    assert told.look(100, seen(warned(900), ended=Ended("Succeeded", "", at(90)))) == ["SessionEnded"]
    assert "Succeeded" in told.notices[-1].note
    assert not told.story.open


def test_an_end_without_an_instant_is_not_given_one() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    told.look(100, seen(warned(900), ended=Ended("Failed", "Evicted", None)))
    assert "ended before 2026-11-29 19:01:40 UTC: Failed, “Evicted”" in told.notices[-1].note


def test_an_end_by_the_runtime_limit_is_told_without_an_episode() -> None:
    ended = Ended("Failed", "DeadlineExceeded", at(90))
    told = Told()
    assert told.look(100, seen(ended=ended)) == ["SessionEnded"]
    assert "its runtime limit ran out" in told.notices[0].note
    assert Told().look(9000, seen(ended=ended)) == []
    assert Told().look(100, seen(ended=replace(ended, reason="Error"))) == []


def test_a_pod_removed_without_grace_ends_its_episode() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    assert told.look(10, seen(warned(900)), Around(gone_at=at(10))) == ["SessionEnded"]


def test_an_episode_of_a_pod_that_is_gone_ends_unobserved_once() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    result = ended_unobserved(told.story, at(600))
    assert "between 2026-11-29 19:00:00 UTC and 2026-11-29 19:10:00 UTC, unobserved" in result.tell[0].note  # type: ignore[union-attr]
    assert ended_unobserved(result.story, at(601)).tell == ()
    assert ended_unobserved(NOTHING, T0).tell == ()


def test_a_queued_warning_never_names_an_instant_inside_the_guarantee() -> None:
    told = Told()
    told.look(0, seen(warned(60, **{"guaranteed-until": text(3600)})))
    told.look(120, seen(warned(180, **{"guaranteed-until": text(3600)})))
    assert told.reasons == ["TerminationWarningQueued", "TerminationWarningChanged"]
    assert "from 2026-11-29 20:00:00 UTC (in 1 h) on" in told.notices[0].note
    assert "from 2026-11-29 20:00:00 UTC (in 58 min) on" in told.notices[1].note


def test_only_an_instant_that_was_told_is_said_to_be_another_now() -> None:
    told = Told()
    told.look(0, seen(warned(1800, **{"guaranteed-until": text(3600)})))
    told.look(120, seen(warned(2100, **{"guaranteed-until": text(3600)})))
    assert "from 2026-11-29 20:00:00 UTC (in 58 min) on, as before" in told.notices[1].note
    told.look(200, seen(warned(2100, **{"guaranteed-until": text(3600)}), deleted=at(200)), Around(cause=""))
    assert "of a stop from 2026-11-29 20:00:00 UTC on" in told.notices[2].note


def test_a_guarantee_that_moves_the_stop_of_a_queued_warning_says_so() -> None:
    told = Told()
    told.look(0, seen(warned(1800, **{"guaranteed-until": text(3600)})))
    assert told.look(120, seen(warned(1800, **{"guaranteed-until": text(5400)}))) == ["GuaranteeExtended"]
    assert "the termination warning now waits for its end" in told.notices[1].note
    assert told.look(240, seen(warned(1800, **{"guaranteed-until": text(4500)}))) == ["TerminationWarningChanged"]
    assert "from 2026-11-29 20:15:00 UTC (in 1 h 11 min) on, not 2026-11-29 20:30:00 UTC" in told.notices[2].note
    assert told.look(301, seen(warned(1800, **{"guaranteed-until": text(4500)}))) == []


def test_an_extension_that_moves_no_stop_says_nothing_of_one() -> None:
    told = Told()
    told.look(0, seen(warned(7200, **{"guaranteed-until": text(3600)})))
    assert told.look(120, seen(warned(7200, **{"guaranteed-until": text(5400)}))) == ["GuaranteeExtended"]
    assert "waits" not in told.notices[1].note


def test_a_change_says_what_changed_and_nothing_else() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    told.look(10, seen(warned(900, "1.00")))
    assert told.notices[-1].note.endswith("(in 15 min) on, as before; the stop is certain. Save before that.")
    told.look(990, seen(warned(900, "1.00")))
    told.look(1000, seen(warned(900, "0.33")))
    assert told.reasons[-2:] == ["TerminationWarningStale", "TerminationWarningChanged"]
    assert told.notices[-1].note.endswith("on, as before; the stop is possible. Save now.")


def test_an_idle_deadline_that_arrives_after_its_status_is_told() -> None:
    told = Told()
    told.look(0, seen({"idle-gpu-status": "warning"}))
    with_deadline = seen({"idle-gpu-status": "warning", "idle-gpu-cull-deadline": text(1800)})
    assert told.look(1, with_deadline) == []
    assert told.deadline == at(60)
    assert told.look(60, with_deadline) == ["IdleCullWarning"]
    assert "2026-11-29 19:30:00 UTC (in 29 min)" in told.notices[-1].note
    assert told.look(200, with_deadline) == []


@pytest.mark.parametrize(
    ("grace", "gone", "said"),
    [
        (600, None, "It has 10 min of grace, until 2026-11-29 19:11:00 UTC."),
        (0, None, "It has no grace."),
        (0, at(60), "It is gone."),
    ],
)
def test_a_stop_says_which_grace_is_left(grace: int, gone: datetime | None, said: str) -> None:
    told = Told()
    told.look(60, seen(deleted=at(60), grace_seconds=grace), Around(gone_at=gone, cause=""))
    assert told.notices[-1].note.endswith(said)


def test_a_pod_that_went_unseen_is_not_said_to_have_had_no_grace() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    told.look(600, seen(warned(900)), Around(gone_at=at(600), unseen=True))
    assert "ended between 2026-11-29 19:00:00 UTC and 2026-11-29 19:10:00 UTC, unobserved" in told.notices[-1].note


def test_a_guarantee_that_goes_missing_and_comes_back_is_no_storm() -> None:
    told = Told()
    queued, bare = seen(warned(3600, **{"guaranteed-until": text(3600)})), seen(warned(3600))
    for second in range(0, 60, 5):
        told.look(second, bare if second % 2 else queued)
    assert told.reasons == ["TerminationWarningQueued", "TerminationWarning"]
    told.look(60, queued)
    assert told.deadline == at(65)
    assert told.look(65, queued) == ["TerminationWarningQueued"]


def test_a_guarantee_that_was_extended_and_is_over_has_ended() -> None:
    told = Told()
    told.look(0, seen({"guaranteed-until": text(100)}))
    assert told.look(1000, seen({"guaranteed-until": text(700)})) == ["GuaranteeEnded"]
    assert told.look(1010, seen({"guaranteed-until": text(7200)})) == ["GuaranteeExtended"]
