"""Each cue asks for one save per episode; only the warning asks to stop."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import pytest

from forewarn.contract import UTC
from forewarn.inpod.cues import Cue, container_start, instants, runtime_limit
from forewarn.inpod.decisions import Episode, Policy, stop_asked
from forewarn.inpod.schedule import SaveSchedule
from forewarn.inpod.volume import Volume
from forewarn.session import Facts

NOW = datetime(2026, 11, 29, 19, 30, tzinfo=UTC)
LEAD = 120.0
WARNING, GUARANTEE = frozenset({Cue.WARNING}), frozenset({Cue.GUARANTEE_END})


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def fired(episode: Episode, seconds: float | None, now: datetime = NOW, cue: Cue = Cue.WARNING) -> frozenset[Cue]:
    found = {} if seconds is None else {cue: now + timedelta(seconds=seconds)}
    return episode.update(found, LEAD, now)


def test_fires_once_at_the_lead():
    episode = Episode()
    answers = [fired(episode, seconds) for seconds in (900, 121, 120, 119, 60, 0, -300)]
    assert answers == [frozenset(), frozenset(), WARNING, frozenset(), frozenset(), frozenset(), frozenset()]


def test_fires_at_the_appearance_where_saves_are_cheap():
    episode = Episode(Policy.AT_APPEARANCE)
    assert fired(episode, None) == frozenset()
    assert fired(episode, 900) == WARNING
    assert fired(episode, 100) == frozenset()
    assert fired(episode, None) == frozenset()
    assert fired(episode, 900) == WARNING


def test_fires_again_after_a_withdrawal_and_return_with_the_same_time():
    episode = Episode()
    assert fired(episode, 60) == WARNING
    assert fired(episode, None) == frozenset()
    assert fired(episode, 60) == WARNING


@pytest.mark.parametrize("seconds", [60, 0, -1, -86400])
def test_fires_at_once_where_the_time_is_near_or_past_when_first_read(seconds):
    assert fired(Episode(), seconds) == WARNING


def test_fires_at_once_when_the_time_moves_earlier():
    episode = Episode()
    assert fired(episode, 900) == frozenset()
    assert fired(episode, 30) == WARNING


def test_a_sweep_that_moves_the_time_by_seconds_is_no_new_episode():
    episode = Episode()
    assert fired(episode, 119) == WARNING
    assert fired(episode, 125) == frozenset()
    assert fired(episode, 119) == frozenset()


def test_a_time_that_moved_far_out_asks_again_at_its_new_lead():
    episode = Episode()
    assert fired(episode, 60) == WARNING
    assert fired(episode, 1500) == frozenset()
    assert fired(episode, 120) == WARNING


def test_the_end_of_the_guarantee_does_not_hide_the_warning_after_it():
    episode = Episode()
    found = {Cue.GUARANTEE_END: after(-1)}
    assert episode.update(found, LEAD, NOW) == GUARANTEE
    assert episode.update(found, LEAD, after(3600)) == frozenset()
    assert episode.update({**found, Cue.WARNING: after(3700)}, LEAD, after(3610)) == WARNING
    assert episode.update(found, LEAD, after(3620)) == frozenset()
    assert episode.update({**found, Cue.WARNING: after(3700)}, LEAD, after(3630)) == WARNING


def test_cues_that_rise_together_are_one_save():
    both = Episode().update({Cue.GUARANTEE_END: after(0), Cue.WARNING: after(0)}, LEAD, NOW)
    assert both == WARNING | GUARANTEE


@pytest.mark.parametrize("cue", list(Cue))
def test_only_the_warning_stops(cue):
    episode = Episode()
    assert fired(episode, 10, cue=cue) == {cue}
    assert stop_asked(episode.near({cue: after(10)}, LEAD, NOW)) == (cue is Cue.WARNING)


def test_an_extended_guarantee_asks_again_at_its_new_end():
    episode = Episode()
    assert fired(episode, 60, cue=Cue.GUARANTEE_END) == GUARANTEE
    assert fired(episode, 3600, cue=Cue.GUARANTEE_END) == frozenset()
    assert fired(episode, 60, cue=Cue.GUARANTEE_END) == GUARANTEE


def test_cues_of_a_session():
    facts = Facts(warning_at=after(1), guaranteed_until=after(2), idle_cull_deadline=after(3), idle_status="warning")
    assert instants(facts, after(4)) == {
        Cue.WARNING: after(1),
        Cue.GUARANTEE_END: after(2),
        Cue.IDLE_CULL: after(3),
        Cue.RUNTIME_LIMIT: after(4),
    }
    assert instants(Facts()) == {}
    assert instants(Facts(idle_status="ok", idle_cull_deadline=after(3))) == {}
    assert instants(Facts(idle_cull_deadline=after(3))) == {Cue.IDLE_CULL: after(3)}


def test_runtime_limit_counts_from_the_start():
    assert runtime_limit({"FOREWARN_RUNTIME_LIMIT_SECONDS": "21600"}, Facts(), NOW) == after(21600)
    assert runtime_limit({}, Facts(runtime_limit_seconds=60), NOW) == after(60)
    assert runtime_limit({"FOREWARN_RUNTIME_LIMIT_SECONDS": "6h"}, Facts(), NOW) is None


def test_container_start_is_process_1s(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "stat").write_text(f"cpu 1 2\nbtime {int(NOW.timestamp())}\n")
    fields = ["S", *["0"] * 18, "12000", "0"]
    (tmp_path / "1" / "stat").write_text(f"1 (a) b) {' '.join(fields)}\n")
    assert container_start("/nowhere", str(tmp_path), after(9999)) == after(120)
    assert container_start("/nowhere", "/nowhere", after(9999)) == after(9999)


def test_the_kubelets_links_are_older_than_the_container(tmp_path):
    Volume(tmp_path).write({"guaranteed-until": ""})
    made = (tmp_path / "guaranteed-until").lstat().st_mtime
    assert container_start(str(tmp_path), "/nowhere") == datetime.fromtimestamp(made, UTC)


def test_the_interval_is_twenty_costs():
    assert SaveSchedule(30).interval() == pytest.approx(600)
    assert SaveSchedule(30).interval(overstay=True) == pytest.approx(300)
    assert SaveSchedule(30).lead == 120
    assert SaveSchedule(0.01).interval() == 10
    assert SaveSchedule(0.01, shortest=0).interval() == pytest.approx(0.2)


def test_young_and_daly_where_interruptions_are_counted():
    assert SaveSchedule(30, mtbf=6 * 3600).interval() == pytest.approx(math.sqrt(2 * 30 * 6 * 3600))


def test_real_saves_replace_the_guess():
    schedule = SaveSchedule(1)
    assert not schedule.due(100)
    assert schedule.due(120)
    schedule.saved(120, 3)
    assert (schedule.cost, schedule.lead) == (3, 66)
    assert not schedule.due(179)
    assert schedule.due(180)
    for moment in range(200, 207):
        schedule.saved(moment, 2)
    assert schedule.cost == 2


def test_an_unknown_cost_is_measured_soon():
    schedule = SaveSchedule()
    assert (schedule.cost, schedule.lead) == (None, 60)
    assert not schedule.due(0)
    assert schedule.due(60)


def test_a_background_save_counts_with_its_blocking_part_and_leads_with_the_whole():
    schedule = SaveSchedule()
    schedule.saved(0, blocked=1, durable=40)
    assert schedule.interval() == 40
    assert schedule.lead == 140


def test_a_failed_save_waits_an_interval():
    schedule = SaveSchedule(30)
    assert not schedule.due(0)
    assert schedule.due(600)
    schedule.restart(600)
    assert not schedule.due(601)


@pytest.mark.parametrize("cost", [0, -1, math.inf, math.nan])
def test_a_cost_that_is_none_is_refused(cost):
    with pytest.raises(ValueError, match="above 0"):
        SaveSchedule(cost)
