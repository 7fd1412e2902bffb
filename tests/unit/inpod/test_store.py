"""A store holds whole checkpoints only: killed at any call, out of room, damaged, it restores the newest good one."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from forewarn.inpod import durable, layout, manifest, place
from forewarn.inpod.background import BackgroundSaver, detached
from forewarn.inpod.durable import CheckpointError
from forewarn.inpod.serializers import Functions, Plain
from forewarn.inpod.store import CheckpointStore

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")


def state_of(step: int) -> dict[str, object]:
    return {"step": step, "weights": [step / 3] * 100, "name": "grün", "bytes": bytes(range(256))}


def steps(store: CheckpointStore) -> list[int]:
    return [checkpoint.step for checkpoint in store.checkpoints()]


@pytest.fixture(params=[False, True], ids=["file", "directory"])
def sharded(request) -> bool:
    return request.param


def test_restores_what_was_saved(tmp_path, sharded):
    store = CheckpointStore(tmp_path / "new" / "deep", sharded=sharded)
    assert store.restore() is None
    saved = store.save(7, state_of(7), epoch=2, metrics={"loss": 0.5})
    restored = CheckpointStore(store.directory, sharded=sharded).restore()
    assert restored is not None
    assert restored.state == state_of(7)
    assert (restored.step, restored.skipped) == (7, ())
    found = restored.checkpoint.manifest
    assert (found.epoch, found.metrics, found.serializer) == (2, {"loss": 0.5}, "plain")
    assert found.cost > 0
    assert saved.path == restored.checkpoint.path


def test_keeps_the_last_and_the_best(tmp_path, sharded):
    store = CheckpointStore(tmp_path, keep_last=2, best="loss", sharded=sharded)
    for step, loss in enumerate([3.0, 1.0, 2.0, 2.0, 5.0]):
        store.save(step, state_of(step), metrics={"loss": loss})
    assert steps(store) == [4, 3, 1]
    assert len(layout.names(store.directory)) == 3


def test_the_best_may_be_the_highest(tmp_path):
    store = CheckpointStore(tmp_path, keep_last=1, best="accuracy", best_is="highest")
    for step, accuracy in enumerate([0.5, 0.9, 0.7]):
        store.save(step, state_of(step), metrics={"accuracy": accuracy})
    assert steps(store) == [2, 1]


def test_saving_the_same_step_again_replaces_nothing_before_it_is_whole(tmp_path):
    store = CheckpointStore(tmp_path, keep_last=1)
    store.save(5, {"try": 1})
    store.save(5, {"try": 2})
    restored = store.restore()
    assert restored is not None
    assert restored.state == {"try": 2}


CALLS = ("fsync", "replace", "mkdir", "unlink", "rmdir", "open", "close", "scandir", "listdir", "stat")


def run_and_kill(work, at: int) -> bool:
    """Fork, run ``work`` and kill the process at its ``at``-th call of the system; return whether it was killed."""
    child = os.fork()
    if child == 0:
        left = at

        def counted(call):
            def run(*arguments, **options):
                nonlocal left
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
                return call(*arguments, **options)

            return run

        try:
            for name in CALLS:
                setattr(os, name, counted(getattr(os, name)))
            durable._Tee.write = counted(durable._Tee.write)  # type: ignore[method-assign]
            work()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        return False
    assert os.WTERMSIG(status) == signal.SIGKILL
    return True


def test_killed_at_any_call_the_newest_complete_one_is_restored(tmp_path, sharded):
    at = 0
    outcomes = set()
    killed = True
    while killed:
        directory = tmp_path / str(at)
        store = CheckpointStore(directory, keep_last=2, sharded=sharded)
        store.save(1, state_of(1))
        store.save(2, state_of(2))
        killed = run_and_kill(lambda store=store: store.save(3, state_of(3)), at)
        again = CheckpointStore(directory, keep_last=2, sharded=sharded)
        restored = again.restore()
        assert restored is not None
        assert restored.state == state_of(restored.step)
        assert restored.step in (2, 3)
        assert len(steps(again)) >= 2
        outcomes.add(restored.step)
        again.save(4, state_of(4))
        assert steps(again) == [4, restored.step]
        assert {name.step for name in layout.names(directory)} == {4, restored.step}
        leftovers = {entry for entry in os.listdir(directory) if entry.endswith(".tmp")}
        assert not leftovers
        at += 1
    assert outcomes == {2, 3}
    assert at > 20


def test_everything_is_on_the_disk_before_it_has_its_name_and_before_the_old_goes(tmp_path, sharded, monkeypatch):
    store = CheckpointStore(tmp_path, keep_last=1, sharded=sharded)
    store.save(1, state_of(1))
    done: list[tuple[str, str]] = []
    paths = {}
    real = {name: getattr(os, name) for name in ("fsync", "replace", "unlink")}

    def path_of(descriptor: int) -> str:
        return os.readlink(f"/proc/self/fd/{descriptor}")

    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(("fsync", path_of(fd))), real["fsync"](fd))[1])
    monkeypatch.setattr(
        os, "replace", lambda a, b: (done.append(("replace", str(b))), paths.update({b: a}), real["replace"](a, b))[2]
    )
    monkeypatch.setattr(os, "unlink", lambda p, **kw: (done.append(("unlink", str(p))), real["unlink"](p, **kw))[1])
    saved = store.save(2, state_of(2))
    monkeypatch.undo()

    for index, (what, path) in enumerate(done):
        if what == "replace":
            assert ("fsync", paths[path]) in done[:index]
            assert ("fsync", os.path.dirname(path)) in done[index:]
    marker = os.path.join(saved.path, "DONE") if sharded else saved.path[: -len(".ckpt")] + ".json"
    published = done.index(("replace", marker))
    data = next(path for what, path in done if what == "fsync" and ".ckpt" in os.path.basename(path))
    assert done.index(("fsync", data)) < published
    if sharded:
        assert ("fsync", str(tmp_path)) in done[:published]
    old = [i for i, (what, path) in enumerate(done) if what == "unlink" and "000001" in path]
    durable_at = published + 1 + done[published + 1 :].index(("fsync", os.path.dirname(marker)))
    assert old
    assert min(old) > durable_at


def damage_size(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def damage_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def damage_gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [damage_size, damage_bit, damage_gone])
def test_falls_back_from_a_damaged_one_and_says_so(tmp_path, sharded, damage, caplog):
    store = CheckpointStore(tmp_path, keep_last=2, sharded=sharded)
    store.save(1, state_of(1))
    newest = store.save(2, state_of(2))
    damage(Path(newest.file(next(iter(newest.manifest.files)))))
    restored = store.restore()
    assert restored is not None
    assert restored.step == 1
    assert "fell back to" in caplog.text
    assert len(restored.skipped) == 1
    # What cannot be loaded does not count as one of the last two, and goes once a newer one is there.
    store.save(3, state_of(3))
    assert [checkpoint.step for checkpoint in store.checkpoints()] == [3, 1]


def test_falls_back_from_one_that_its_serializer_refuses(tmp_path):
    def load(file):
        raise RuntimeError("unexpected EOF,\nreally")

    store = CheckpointStore(tmp_path, serializer=Functions("mine", Plain().save, Plain().load))
    store.save(1, state_of(1))
    store.serializer = Functions("bad", Plain().save, load)
    store.save(2, state_of(2))
    store.serializer = Functions("mine", Plain().save, Plain().load)
    restored = store.restore()
    assert restored is not None
    assert restored.step == 1
    assert "the serializer 'bad'" in restored.skipped[0]


def test_does_not_start_anew_where_all_are_damaged(tmp_path, sharded):
    store = CheckpointStore(tmp_path, sharded=sharded)
    saved = store.save(1, state_of(1))
    damage_size(Path(saved.file(next(iter(saved.manifest.files)))))
    with pytest.raises(CheckpointError, match="none of the checkpoints can be loaded"):
        store.restore()


def test_another_configuration_is_refused_unless_allowed(tmp_path):
    CheckpointStore(tmp_path, config={"lr": 0.1, "model": {"depth": 2}}).save(1, state_of(1))
    same = CheckpointStore(tmp_path, config={"model": {"depth": 2}, "lr": 0.1})
    assert same.restore() is not None
    other = CheckpointStore(tmp_path, config={"lr": 0.2, "model": {"depth": 2, "width": 3}})
    with pytest.raises(CheckpointError, match=r"lr: 0.1 → 0.2, model.width: not set → 3") as caught:
        other.restore()
    assert "\n" not in str(caught.value)
    assert other.restore(allow_other_config=True) is not None
    assert CheckpointStore(tmp_path).restore() is not None


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space left"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "no permission"),
        (errno.ESTALE, "NFS"),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_storage_that_refuses_is_a_clear_error_and_loses_nothing(tmp_path, sharded, number, words, call, monkeypatch):
    store = CheckpointStore(tmp_path, keep_last=1, sharded=sharded)
    store.save(1, state_of(1))

    def refuse(*_arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(CheckpointError, match=words) as caught:
        store.save(2, state_of(2))
    monkeypatch.undo()
    assert caught.value.errno == number
    assert "the ones before it are intact" in str(caught.value)
    assert steps(store) == [1]
    assert {name.step for name in layout.names(tmp_path)} == {1}
    store.save(3, state_of(3))
    assert steps(store) == [3]


def test_a_serializer_that_hides_the_systems_error_does_not_hide_it_from_us(tmp_path):
    def save(_state, file):
        try:
            file.write(b"x")
        except OSError:
            raise RuntimeError("PytorchStreamWriter failed") from None

    store = CheckpointStore(tmp_path, serializer=Functions("mine", save, None))
    real = durable.write_new

    def full(path, write):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("builtins.open", lambda *a, **k: Full(path, "xb"))
            return real(path, write)

    import io

    class Full(io.FileIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "write_new", full)
        with pytest.raises(CheckpointError, match="no space left"):
            store.save(1, None)


def test_what_cannot_be_kept_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"state\['a'\]\[1\] is a object") as caught:
        CheckpointStore(tmp_path).save(1, {"a": [0, object()]})
    assert caught.value.errno is None
    assert not layout.names(tmp_path)


@pytest.mark.parametrize(
    "state",
    [
        {"t": (1, (2.5, None)), "k": {1: "a", (2, 3): True}, "~": 1, "e": {}, "l": []},
        float("inf"),
        2**200,
        "\ud800 \u2028",
        [True, 1, 1.0],
        b"",
    ],
)
def test_plain_data_comes_back_as_it_was(tmp_path, state):
    store = CheckpointStore(tmp_path)
    store.save(0, state)
    restored = store.restore()
    assert restored is not None
    assert restored.state == state
    assert repr(restored.state) == repr(state)


def test_random_state_of_python_comes_back(tmp_path):
    import random

    source = random.Random(5)
    store = CheckpointStore(tmp_path)
    store.save(0, source.getstate())
    restored = store.restore()
    assert restored is not None
    other = random.Random()
    other.setstate(restored.state)
    assert [other.random() for _ in range(10)] == [source.random() for _ in range(10)]


def test_a_manifest_of_another_format_is_no_manifest(tmp_path):
    store = CheckpointStore(tmp_path)
    saved = store.save(1, state_of(1))
    sidecar = Path(saved.path[: -len(".ckpt")] + ".json")
    values = json.loads(sidecar.read_text())
    for broken in (b"", b"[]", b"{}", b"\xff", json.dumps({**values, "format": 2}).encode(), b"[" * 100000):
        sidecar.write_bytes(broken)
        found = layout.find(store.directory, saved.name)
        assert isinstance(found, layout.Defect)
        assert found.damaged


def test_strangers_in_the_directory_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "000000-step-x.ckpt").write_text("mine")
    store = CheckpointStore(tmp_path, keep_last=1)
    for step in range(3):
        store.save(step, state_of(step))
    assert (tmp_path / "notes.txt").read_text() == (tmp_path / "000000-step-x.ckpt").read_text() == "mine"


@pytest.mark.parametrize("step", [-1, 1.0, "1"])
def test_a_step_is_a_whole_number(tmp_path, step):
    with pytest.raises(ValueError, match="whole number"):
        CheckpointStore(tmp_path).save(step, None)


@pytest.mark.parametrize("copy", [lambda state: state, detached], ids=["at once", "for the background"])
@pytest.mark.parametrize("state", [OrderedDict(b=1, a=(2,)), Counter("abba"), {"x": [OrderedDict({1: 2})]}, {"~": 1}])
def test_a_mapping_comes_back_as_what_it_was(tmp_path, state, copy):
    store = CheckpointStore(tmp_path, serializer=Plain())
    store.save(1, copy(state))
    restored = store.restore()
    assert restored is not None
    assert repr(restored.state) == repr(state)


class Own(dict):
    pass


@pytest.mark.parametrize("value", [defaultdict(int, a=1), Own(a=1)], ids=["defaultdict", "own"])
def test_a_mapping_that_would_come_back_as_another_is_refused(tmp_path, value):
    with pytest.raises(CheckpointError, match=rf"state\['x'\] is a {type(value).__name__}, which"):
        CheckpointStore(tmp_path, serializer=Plain()).save(1, {"x": value})


class Gate:
    """A serializer that waits to be let through, in the saving thread."""

    name = "gate"

    def __init__(self) -> None:
        import threading

        self.open = threading.Event()
        self.fail = False

    def save(self, state, file) -> None:
        assert self.open.wait(30)
        if self.fail:
            raise OSError(errno.ENOSPC, "No space left on device")
        Plain().save(state, file)

    def load(self, file):
        return Plain().load(file)


def test_a_background_save_keeps_the_state_of_its_step(tmp_path):
    gate = Gate()
    store = CheckpointStore(tmp_path, serializer=gate)
    saver = BackgroundSaver(store)
    state = {"weights": [1, 2], "more": {"x": [3]}}
    saver.save(1, lambda: state)
    assert saver.poll() is None
    assert store.checkpoints() == []
    state["weights"].append(9)
    state["more"]["x"].append(9)
    gate.open.set()
    saved = saver.wait()
    assert saved is not None
    restored = store.restore()
    assert restored is not None
    assert restored.state == {"weights": [1, 2], "more": {"x": [3]}}


def test_only_one_background_save_is_outstanding(tmp_path):
    import threading

    gate = Gate()
    saver = BackgroundSaver(CheckpointStore(tmp_path, serializer=gate))
    saver.save(1, lambda: 1)
    second = threading.Thread(target=saver.save, args=(2, lambda: 2))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    gate.open.set()
    second.join(30)
    saver.wait()
    assert steps(saver.store) == [2, 1]


def test_a_failed_background_save_raises_once_and_replaces_nothing(tmp_path):
    gate = Gate()
    gate.open.set()
    saver = BackgroundSaver(CheckpointStore(tmp_path, keep_last=1, serializer=gate))
    saver.save(1, lambda: 1)
    saver.wait()
    gate.fail = True
    saver.save(2, lambda: 2)
    with pytest.raises(CheckpointError, match="no space left"):
        saver.wait()
    assert saver.wait() is None
    assert steps(saver.store) == [1]
    gate.fail = False
    saver.save(3, lambda: 3)
    saver.wait()
    assert steps(saver.store) == [3]


def test_the_interpreter_waits_for_a_background_save(tmp_path):
    import subprocess

    code = (
        "import sys, time\n"
        "from forewarn.inpod import BackgroundSaver, CheckpointStore, Functions\n"
        "slow = Functions('slow', lambda state, file: (time.sleep(0.5), file.write(b'whole')), None)\n"
        f"BackgroundSaver(CheckpointStore({str(tmp_path)!r}, serializer=slow)).save(1, lambda: None)\n"
        "sys.exit(75)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 75
    assert steps(CheckpointStore(tmp_path)) == [1]


def test_detached_copies_are_deep():
    inner = [1]
    copied = detached({"a": (inner, {"b": inner})})
    inner.append(2)
    assert copied == {"a": ([1], {"b": [1]})}


MOUNTS = """\
22 1 0:21 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/a
30 22 0:40 /u/me /home/me rw - nfs4 server:/u rw
31 22 0:41 / /dev/shm rw - tmpfs tmpfs rw
32 22 8:1 /var/lib/kubelet/pods/x/volumes/kubernetes.io~empty-dir/s /scratch rw - ext4 /dev/sda1 rw
33 22 0:50 / /with\\040blank rw - ext4 /dev/sdb rw
nonsense
"""


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/home/me/run", None),
        ("/home/me", None),
        ("/home/mean", "overlay"),
        ("/work", "overlay"),
        ("/dev/shm/x", "tmpfs"),
        ("/scratch/x", "emptyDir"),
        ("/with blank/x", None),
    ],
)
def test_a_place_that_is_lost_with_the_pod(path, words):
    found = place.concerns(path, place.mount_of(path, place.parse_mounts(MOUNTS)), 0o40755, 5, (5,))
    assert (len(found), words is None or words in found[0]) == (0 if words is None else 1, True)


@pytest.mark.parametrize(
    ("mode", "group", "shared"),
    [(0o755, 7, False), (0o775, 5, False), (0o775, 7, True), (0o777, 5, True), (0o1777, 5, True)],
)
def test_a_place_that_others_can_write(mode, group, shared):
    assert bool(place.concerns("/x", None, mode, group, (5, 7))) == shared


def test_a_bad_place_is_warned_about_once_and_only_in_a_pod(tmp_path, monkeypatch, caplog):
    shared = tmp_path / "share"
    shared.mkdir()
    shared.chmod(0o777)
    caplog.set_level(logging.WARNING)
    CheckpointStore(shared).save(1, 1)
    assert "written by others" not in caplog.text
    monkeypatch.setenv("PODINFO", str(tmp_path))
    store = CheckpointStore(shared)
    store.save(2, 2)
    store.save(3, 3)
    assert caplog.text.count("written by others") == 1


def test_names_sort_by_their_number():
    assert manifest.parse_name("000009-step-900.ckpt") < manifest.parse_name("000010-step-1")  # type: ignore[operator]
    assert manifest.parse_name("1000000-step-1.json.tmp") == manifest.Name(1000000, 1)
    assert manifest.parse_name("000001-step-1.txt") is None


@pytest.mark.parametrize("step", [True, -1, 1.0, "1", None, 10**18])
def test_a_step_that_a_name_cannot_hold_is_refused_before_anything_is_written(tmp_path, step):
    with pytest.raises(ValueError, match="step must be a whole number"):
        CheckpointStore(tmp_path).save(step, {})
    assert not list(tmp_path.iterdir())


class Whole:
    """A whole number of another library, as numpy.int64 is."""

    def __index__(self) -> int:
        return 7


def test_a_whole_number_of_another_library_is_a_step(tmp_path):
    store = CheckpointStore(tmp_path)
    store.save(Whole(), {})
    assert store.restore().step == 7


@pytest.mark.parametrize("value", [None, "low", [1.0]])
def test_a_metric_that_is_no_number_is_refused_and_nothing_is_lost(tmp_path, value):
    store = CheckpointStore(tmp_path, best="loss")
    store.save(1, {}, metrics={"loss": 1})
    with pytest.raises(CheckpointError, match="not saved"):
        store.save(2, {}, metrics={"loss": value})
    assert steps(store) == [1]


def test_a_loss_that_is_not_a_number_is_never_the_best(tmp_path):
    store = CheckpointStore(tmp_path, keep_last=1, best="loss")
    for step, loss in enumerate([float("nan"), 1.0, 2.0, float("nan")]):
        store.save(step, {}, metrics={"loss": loss})
    assert steps(store) == [3, 1]


@dataclass
class Config:
    rate: float
    tags: frozenset


@pytest.mark.parametrize("config", [Config(0.1, frozenset("abc")), {"home": Path("/a"), "tags": {"b", "a"}}, "\ud800"])
def test_a_configuration_is_the_same_in_the_next_run(tmp_path, config):
    CheckpointStore(tmp_path, config=config).save(1, {})
    assert CheckpointStore(tmp_path, config=config).restore().step == 1
    assert manifest.plain({"tags": {"b", "a"}}) == {"tags": ["a", "b"]}


CYCLE: dict = {}
CYCLE["itself"] = CYCLE


@pytest.mark.parametrize("config", [{"model": object()}, {"loss": lambda: 0}, {1: 2, "b": 3}, {(1, 2): 3}, CYCLE])
def test_a_configuration_that_no_next_run_could_match_is_refused_at_once(tmp_path, config):
    with pytest.raises(TypeError, match="config cannot be kept as JSON"):
        CheckpointStore(tmp_path, config=config)


def test_two_runs_that_save_at_the_same_moment_leave_each_others_checkpoint(tmp_path):
    one, other = CheckpointStore(tmp_path).begin(1), CheckpointStore(tmp_path).begin(1)
    one.write({"of": "one"})
    other.write({"of": "other"})
    with pytest.raises(CheckpointError):
        other.publish()
    one.publish()
    assert CheckpointStore(tmp_path).restore().state == {"of": "one"}


def test_a_save_leaves_nothing_for_python_to_complain_about(tmp_path):
    code = (
        "import gc, sys\nfrom forewarn.inpod import CheckpointStore\n"
        "CheckpointStore(sys.argv[1]).save(1, {'a': b'x'})\ngc.collect()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_newest_is_what_was_saved_last_whatever_its_step(tmp_path):
    store = CheckpointStore(tmp_path, keep_last=1)
    for step in (3, 0, 3, 1):
        store.save(step, {"step": step})
    restored = CheckpointStore(tmp_path).restore()
    assert restored is not None
    assert (restored.step, len(store.checkpoints())) == (1, 1)
