"""The watch tells each change once, by inotify at once and without it by looking."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone

import pytest

from forewarn import contract
from forewarn.inpod import inotify
from forewarn.inpod.reader import PodInfo
from forewarn.inpod.volume import Volume
from forewarn.inpod.watching import Change, Watch, changes, watch
from forewarn.session import Facts

NOW = datetime(2026, 11, 29, 19, 30, tzinfo=timezone.utc)
LATER = NOW + timedelta(seconds=1)
AT = contract.format_instant(NOW)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Facts(), Facts(), ()),
        (Facts(), Facts(warning_at=NOW), (Change.WARNED,)),
        (Facts(warning_at=NOW), Facts(), (Change.WITHDRAWN,)),
        (Facts(warning_at=NOW), Facts(warning_at=NOW), ()),
        (Facts(warning_at=NOW), Facts(warning_at=LATER), (Change.CHANGED,)),
        (Facts(warning_at=NOW), Facts(warning_at=NOW, warning_risk=0.5), (Change.CHANGED,)),
        (Facts(warning_risk=0.1), Facts(warning_risk=0.2), ()),
        (Facts(), Facts(guaranteed_until=NOW), (Change.GUARANTEE_ENDED,)),
        (Facts(guaranteed_until=LATER), Facts(guaranteed_until=LATER), (Change.GUARANTEE_ENDED,)),
        (Facts(guaranteed_until=NOW), Facts(guaranteed_until=NOW), ()),
        (Facts(), Facts(guaranteed_until=LATER + timedelta(seconds=1)), ()),
        (Facts(), Facts(guaranteed_until=NOW, warning_at=NOW), (Change.WARNED, Change.GUARANTEE_ENDED)),
    ],
)
def test_changes(before, after, expected):
    assert changes(before, NOW, after, LATER) == expected


class Told:
    def __init__(self) -> None:
        self.queue: queue.Queue[tuple[str, Facts]] = queue.Queue()
        self.callbacks = {
            name: (lambda facts, name=name: self.queue.put((name, facts)))
            for name in ("warned", "changed", "withdrawn", "guarantee_ended")
        }

    def next(self) -> str:
        return self.queue.get(timeout=20)[0]


@pytest.fixture(params=["inotify", "polling"])
def told(request, monkeypatch) -> Told:
    if request.param == "polling":
        monkeypatch.setattr(inotify, "open_on", lambda directory: None)
    return Told()


def poll(request) -> float:
    return 0.02 if "polling" in request.node.name else 3600


def test_tells_each_change_once(tmp_path, told, request):
    volume = Volume(tmp_path)
    volume.write_podinfo({})
    with watch(PodInfo(tmp_path), poll_seconds=poll(request), **told.callbacks):
        volume.write_podinfo({contract.WARNING_AT: AT})
        assert told.next() == "warned"
        volume.write_podinfo({contract.WARNING_AT: AT, contract.WARNING_RISK: "0.50"})
        assert told.next() == "changed"
        volume.write_podinfo({})
        assert told.next() == "withdrawn"
        volume.write_podinfo({contract.WARNING_AT: AT})
        assert told.next() == "warned"
    assert told.queue.empty()
    volume.write_podinfo({})
    assert told.queue.empty()


def test_tells_what_is_so_already(tmp_path):
    Volume(tmp_path).write_podinfo({contract.WARNING_AT: AT, contract.GUARANTEED_UNTIL: AT})
    told = Told()
    with watch(PodInfo(tmp_path), **told.callbacks):
        assert {told.next(), told.next()} == {"warned", "guarantee_ended"}


def test_the_guarantees_end_is_told_when_it_comes(tmp_path):
    soon = datetime.now(timezone.utc) + timedelta(seconds=0.5)
    Volume(tmp_path).write_podinfo({contract.GUARANTEED_UNTIL: soon.isoformat()})
    told = Told()
    with watch(PodInfo(tmp_path), poll_seconds=3600, **told.callbacks):
        assert told.next() == "guarantee_ended"
        assert datetime.now(timezone.utc) >= soon


def test_a_directory_that_comes_later(tmp_path):
    told = Told()
    with watch(PodInfo(tmp_path / "later"), poll_seconds=0.02, **told.callbacks):
        Volume(tmp_path / "later").write_podinfo({contract.WARNING_AT: AT})
        assert told.next() == "warned"


def test_a_callback_that_raises_is_logged_and_the_watch_goes_on(tmp_path, caplog):
    volume = Volume(tmp_path)
    volume.write_podinfo({contract.WARNING_AT: AT})
    told = Told()

    def fail(facts: Facts) -> None:
        told.callbacks["warned"](facts)
        raise ValueError("no")

    with watch(PodInfo(tmp_path), warned=fail, withdrawn=told.callbacks["withdrawn"]):
        assert told.next() == "warned"
        volume.write_podinfo({})
        assert told.next() == "withdrawn"
    assert "'warned' failed" in caplog.text


def test_a_closed_watch_leaves_no_descriptor(tmp_path):
    before = set(os.listdir("/proc/self/fd"))
    watch(PodInfo(tmp_path)).close()
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_forked_child_that_closes_its_copy_leaves_the_parents_watch(tmp_path):
    code = (
        "import os, sys\n"
        "from forewarn.inpod.reader import PodInfo\n"
        "from forewarn.inpod.watching import watch\n"
        "with watch(PodInfo(sys.argv[1])) as one:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        one.close()\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "    one._thread.join(1)\n"
        "    print(one._thread.is_alive())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=30)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize(
    ("kind", "hears"), [("tmpfs", True), ("ext4", True), ("nfs4", False), ("fuse.sshfs", False), (None, False)]
)
def test_where_inotify_hears(kind, hears):
    assert inotify.hears(kind) == hears


MANY_FILES = """
import os, resource, sys, threading
from forewarn.inpod import PodInfo, watch
from forewarn.inpod.volume import Volume
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, max(2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
volume = Volume(sys.argv[1]); volume.write_podinfo({})
kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
seen = threading.Event()
with watch(PodInfo(volume.path), warned=lambda facts: seen.set(), poll_seconds=float(sys.argv[2])):
    volume.write_podinfo({"termination-warning-at": "2026-11-29T19:30:00Z"})
    assert seen.wait(20)
"""


@pytest.mark.parametrize("poll", ["0.05", "1e9"])
def test_a_program_with_many_open_files_is_told_too(tmp_path, poll):
    """select() knows 1,024 descriptors."""
    command = [sys.executable, "-c", MANY_FILES, str(tmp_path / "podinfo"), poll]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_close_may_come_from_a_callback_and_from_outside_at_once(tmp_path, monkeypatch):
    volume = Volume(tmp_path / "podinfo")
    volume.write_podinfo({contract.WARNING_AT: AT})
    box: list[Watch] = []
    outside, write = threading.Event(), os.write

    def closing(_facts):
        assert outside.wait(20)
        box[0].close()

    def writing(descriptor, data):
        # The one from outside has begun; the thread gets the time to end by the callback's.
        if threading.current_thread() is threading.main_thread():
            outside.set()
            box[0]._thread.join(0.5)
        return write(descriptor, data)

    box.append(watch(PodInfo(volume.path), warned=closing))
    monkeypatch.setattr(os, "write", writing)
    box[0].close()
    box[0].close()
    assert not box[0]._thread.is_alive()
