"""Who ends with whom, and who is gone."""

from __future__ import annotations

from dataclasses import replace

from forewarn.mirror.records import GRAVES, Record, Records
from forewarn.mirror.story import NOTHING
from tests.unit.mirror.sessions import at, seen, warned


def member(records: Records, uid: str, group: str = "job/1") -> Record:
    return records.add(seen(uid=uid, name=f"train-{uid}", group=group), NOTHING)


def mark(records: Records, record: Record, **changes: object) -> list[str]:
    record.seen = replace(record.seen, **changes)  # type: ignore[arg-type]
    return sorted(other.uid for other in records.mark(record))


def test_the_others_are_looked_at_when_a_first_one_is_marked_and_when_none_is() -> None:
    records = Records()
    first, second, third = (member(records, uid) for uid in "abc")
    member(records, "x", "job/2")
    facts, quiet = seen(warned(900)).facts, seen().facts
    assert mark(records, first, facts=facts) == ["b", "c"]
    assert mark(records, second, facts=facts) == []
    assert records.around(third).peers == ("train-a", "train-b")
    assert records.around(third).peers_at == at(900)
    assert records.around(first).peers == ()
    assert mark(records, first, facts=quiet) == []
    assert records.around(first).peers == ("train-b",)
    assert mark(records, second, deleted=at(1)) == ["a", "c"]


def test_a_session_alone_is_nobodys_peer() -> None:
    records = Records()
    alone = member(records, "a", "")
    assert mark(records, alone, facts=seen(warned(900)).facts) == []
    assert records.around(alone).peers == ()


def test_who_is_forgotten_marks_nobody() -> None:
    records = Records()
    first, second = member(records, "a"), member(records, "b")
    mark(records, first, facts=seen(warned(900)).facts)
    records.forget("a")
    records.forget("a")
    assert records.around(second).peers == ()
    assert [record.uid for record in records] == ["b"]
    assert len(records) == 1


def test_graves_are_remembered_up_to_a_limit() -> None:
    records = Records()
    for number in range(GRAVES + 1):
        records.bury(f"u{number}")
    assert not records.is_buried("u0")
    assert records.is_buried(f"u{GRAVES}")


def test_a_session_whose_label_changes_changes_its_group() -> None:
    records = Records()
    first, second = member(records, "a"), member(records, "b")
    third = member(records, "c", "job/2")
    facts = seen(warned(900)).facts
    assert mark(records, first, facts=facts) == ["b"]
    assert mark(records, first, group="job/2") == ["b", "c"]
    assert records.around(second).peers == ()
    assert records.around(third).peers == ("train-a",)
    assert mark(records, first, group="") == ["c"]
    assert records.around(third).peers == ()
    records.forget("a")
    assert mark(records, second, facts=facts) == []
    assert mark(records, third, group="job/1") == []
    assert records.around(third).peers == ("train-b",)
    for uid in "bc":
        records.forget(uid)
    assert mark(records, member(records, "d"), facts=facts) == []


def test_what_counts_is_what_a_session_was_told_before_its_delete() -> None:
    record = member(Records(), "a")
    record.see(seen(warned(900)))
    record.see(seen(warned(900), deleted=at(60), grace_seconds=600))
    # The controller tidies up, and the kubelet removes the pod with a second delete, without grace.
    record.see(seen({}, deleted=at(60), grace_seconds=0))
    assert record.seen.facts.warned
    assert record.seen.grace_seconds == 600
    # A person shortens the grace.
    record.see(seen({}, deleted=at(60), grace_seconds=5))
    assert record.seen.grace_seconds == 5


def test_a_withdrawal_that_came_with_the_delete_is_taken() -> None:
    record = member(Records(), "a")
    record.see(seen(warned(900)))
    record.see(seen({}, deleted=at(60)))
    assert not record.seen.facts.warned
