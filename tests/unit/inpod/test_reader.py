"""PodInfo reads one consistent snapshot, never raises on what is there, and never keeps an old answer."""

from __future__ import annotations

import json
import os
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from forewarn import contract
from forewarn.contract import UTC, Band
from forewarn.inpod.quoted import read_map, unquote
from forewarn.inpod.reader import PodInfo
from forewarn.inpod.volume import Volume

AT = datetime(2026, 11, 29, 19, 30, tzinfo=UTC)


def test_reads_the_six_files(tmp_path):
    volume = Volume(tmp_path)
    volume.write(
        {
            contract.GUARANTEED_UNTIL: "2026-11-29T19:00:00Z",
            contract.WARNING_AT: "2026-11-29T19:30:00Z",
            contract.WARNING_RISK: "0.33",
            contract.WARNING_MESSAGE: "Stops at 11:30.",
            contract.IDLE_STATUS: "warning",
            contract.IDLE_CULL_DEADLINE: "2026-11-29T19:45:00+00:00",
        }
    )
    facts = PodInfo(tmp_path).read()
    assert facts.guaranteed_until == AT - timedelta(minutes=30)
    assert facts.warning_at == AT
    assert (facts.warning_risk, facts.band) == (0.33, Band.POSSIBLE)
    assert facts.warning_message == "Stops at 11:30."
    assert facts.idle_status == "warning"
    assert facts.idle_cull_deadline == AT + timedelta(minutes=15)


def test_the_whole_map_gives_what_has_no_file_of_its_own(tmp_path):
    Volume(tmp_path).write(
        {
            contract.WARNING_AT: "",
            contract.WHOLE_MAP_FILE: 'galends/termination-warning-at="2026-11-29T19:30:00Z"\n'
            'galends/booking-reference="res-4812"\nother="x"\ndsmlp/idle-gpu-status="idle"\n',
        }
    )
    facts = PodInfo(tmp_path).read()
    assert facts.warning_at is None
    assert facts.booking_reference == "res-4812"
    assert facts.idle_status == "idle"


def test_a_directory_without_a_kubelet_is_read_each_time(tmp_path):
    podinfo = PodInfo(tmp_path)
    assert not podinfo.stop_expected(60)
    (tmp_path / contract.WARNING_AT).write_text("2026-11-29T19:30:00Z")
    assert podinfo.stop_expected(60)
    (tmp_path / contract.WARNING_AT).write_text("")
    assert not podinfo.stop_expected(60)


@pytest.mark.parametrize("content", [b"", b"soon", b"\xff\xfe\x00", b"9" * 5000, b"2026-02-30T00:00:00Z"])
def test_no_content_raises(tmp_path, content):
    Volume(tmp_path).write(dict.fromkeys((*contract.PODINFO_NAMES, contract.WHOLE_MAP_FILE), content))
    facts = PodInfo(tmp_path).read()
    assert facts.warning_at is None
    assert not PodInfo(tmp_path).stop_expected(1e9)


def test_what_is_no_file_is_absent(tmp_path):
    (tmp_path / contract.WARNING_AT).mkdir()
    os.symlink("nowhere", tmp_path / contract.GUARANTEED_UNTIL)
    assert not PodInfo(tmp_path).read().warned
    assert not PodInfo(tmp_path / "missing").read().warned
    (tmp_path / "file").write_text("")
    assert not PodInfo(tmp_path / "file").read().warned


def test_a_broken_data_link_is_nothing(tmp_path):
    os.symlink("..gone", tmp_path / "..data")
    assert PodInfo(tmp_path).read().warning_at is None


def test_variable_overrides_the_directory(tmp_path, monkeypatch):
    monkeypatch.setenv(contract.PODINFO_VARIABLE, str(tmp_path))
    assert PodInfo().directory == str(tmp_path)
    monkeypatch.setenv(contract.PODINFO_VARIABLE, "")
    assert PodInfo().directory == contract.MOUNT_PATH


@pytest.mark.parametrize("name", [contract.WARNING_AT, contract.GUARANTEED_UNTIL])
def test_stop_is_expected_within_the_lead(tmp_path, name):
    Volume(tmp_path).write({name: "2026-11-29T19:30:00Z"})
    podinfo = PodInfo(tmp_path)
    assert podinfo.stop_expected(60, AT - timedelta(seconds=60))
    assert not podinfo.stop_expected(60, AT - timedelta(seconds=61))
    assert podinfo.stop_expected(60, AT + timedelta(days=1))
    with pytest.raises(ValueError, match="aware"):
        podinfo.stop_expected(60, AT.replace(tzinfo=None))


def test_never_caches_across_a_swap(tmp_path):
    volume = Volume(tmp_path)
    podinfo = PodInfo(tmp_path)
    for round_ in range(20):
        at = AT + timedelta(hours=round_)
        volume.write({contract.WARNING_AT: contract.format_instant(at)})
        assert podinfo.read().warning_at == at
        volume.write({contract.WARNING_AT: ""})
        assert podinfo.read().warning_at is None


def test_opens_no_file_when_nothing_changed(tmp_path, monkeypatch):
    Volume(tmp_path).write({contract.WARNING_AT: "2026-11-29T19:30:00Z"})
    podinfo = PodInfo(tmp_path)
    assert podinfo.stop_expected(60)
    monkeypatch.setattr("builtins.open", None)
    assert podinfo.stop_expected(60)


def test_a_snapshot_is_of_one_swap(tmp_path):
    """A reader that raced the kubelet and mixed two swaps would see two numbers."""
    volume = Volume(tmp_path)
    stop = threading.Event()

    def write(number: int) -> None:
        at = contract.format_instant(AT + timedelta(seconds=number))
        volume.write({contract.WARNING_AT: at, contract.GUARANTEED_UNTIL: at, contract.WARNING_MESSAGE: at})

    def swap() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            write(number)
            stop.wait(0.0005)

    write(0)
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        last = AT
        for _ in range(3000):
            facts = PodInfo(tmp_path).read()
            assert facts.warning_at is not None
            assert facts.warning_at == facts.guaranteed_until
            assert facts.warning_message == contract.format_instant(facts.warning_at)
            assert facts.warning_at >= last
            last = facts.warning_at
        assert last > AT
    finally:
        stop.set()
        thread.join()


def test_a_file_that_could_not_be_read_is_tried_again(tmp_path):
    volume = Volume(tmp_path)
    volume.write({contract.GUARANTEED_UNTIL: "2026-11-29T19:30:00Z"})
    data = tmp_path / os.readlink(tmp_path / "..data")
    (data / contract.WARNING_AT).mkdir()
    podinfo = PodInfo(tmp_path)
    assert not podinfo.read().warned
    (data / contract.WARNING_AT).rmdir()
    Path(data, contract.WARNING_AT).write_text("2026-11-29T19:30:00Z")
    assert podinfo.read().warned


@pytest.mark.parametrize(
    ("quoted", "value"),
    [
        ('"plain"', "plain"),
        ('""', ""),
        (r'"a\"b\\c"', 'a"b\\c'),
        (r'"\a\b\f\n\r\t\v"', "\a\b\f\n\r\t\v"),
        (r'"\x00\x7f\x1b"', "\x00\x7f\x1b"),
        (r'"\u2028\u00a0"', "\u2028\u00a0"),
        (r'"\U000e0001"', "\U000e0001"),
        ('"grün 日本"', "grün 日本"),
        (r'"\xff\xfe"', "\ufffd\ufffd"),
        (r'"\xc3\xa9"', "é"),
        (r'"\\n"', r"\n"),
        (r'"\q\u12"', r"\q\u12"),
        (r'"\U7fffffff"', r"\U7fffffff"),
        (r'"\ud800"', "\ufffd\ufffd\ufffd"),
        ('"open', '"open'),
        ("", ""),
    ],
)
def test_unquotes_as_go_quotes(quoted, value):
    assert unquote(quoted) == value


def test_undoes_what_gos_own_strconv_made():
    """The cases were written by Go 1.x's ``strconv.Quote``, which is what ``%q`` calls."""
    cases = json.loads((Path(__file__).parents[2] / "cases" / "inpod" / "go_quoted.json").read_text("utf-8"))
    assert len(cases) > 10
    for case in cases:
        assert unquote(case["Quoted"]) == case["Value"]


def test_a_line_is_split_at_its_first_equals_sign():
    assert read_map('a="b=c"\nnothing\nd="e"\n') == {"a": "b=c", "d": "e"}
