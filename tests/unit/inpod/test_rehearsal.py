"""What a program's output tells of its progress, and how a rehearsal judges it."""

from __future__ import annotations

import re
import time

import pytest

from forewarn.inpod.progress import Progress, compared, counters_in
from forewarn.inpod.rehearsal import Round, judge, passed, problems, table, until_end


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("step 12 loss 0.5", {"step": 12}),
        ("2026-11-29 INFO Step: 7/100", {"step": 7}),
        ("step 17/100", {"step": 17}),
        ("Step:      17", {"step": 17}),
        ("step 1,200", {"step": 1200}),
        ("epoch=3", {"epoch": 3}),
        ("epoch=0-step=12", {"epoch": 0, "step": 12}),
        ("Epoch 0 step 17", {"epoch": 0, "step": 17}),
        ("step 17 of epoch 2", {"epoch": 2, "step": 17}),
        ("epoch 0: batch 12", {"epoch": 0, "batch": 12}),
        ("Epoch [1/3], Step [100/600], Loss: 0.3", {"epoch": 1, "step": 100}),
        ("Epoch 1/3", {"epoch": 1}),
        ("Epoch: [0][ 10/5005]\tTime 0.1", {"epoch": 0, "bar of 5005": 10}),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 0.3", {"epoch": 1, "bar of 60000": 640}),
        ("Epoch 1:  45%|####    | 45/100 [00:01<00:02, 40.00it/s, loss=0.1]", {"epoch": 1, "bar of 100": 45}),
        ("12/100 [==>...] - 1s 3ms/step - loss: 0.1", {"bar of 100": 12}),
        ("\x1b[1m12/100\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m━━\x1b[0m \x1b[1m1s\x1b[0m 3ms/step", {"bar of 100": 12}),
        ("it 5", {"it": 5}),
        ("global_step=12", {"global_step": 12}),
        ("train/step: 3", {"step": 3}),
        ('{"epoch": 1, "step": 5}', {"epoch": 1, "step": 5}),
        ("{'loss': 0.5, 'epoch': 0.04}", {"epoch": 0.04}),
        ("unit 4", {"unit": 4}),
        ("step 5 saved checkpoint.pt", {"step": 5}),
        ("stopped before unit 5; run again", {}),
        ("resuming at step 6", {}),
        ("saved checkpoint at step 6", {}),
        ("loaded checkpoint of epoch 3", {}),
        ("max_step=1000 total epoch: 3 steps_per_epoch: 100 num_epochs=3", {}),
        ("val step 3", {}),
        ("Validation DataLoader 0:  50%|##  | 5/10 [00:01<00:01]", {}),
        ("loss 0.5", {}),
        ("footstep 3", {}),
        ("[11/29/2026 19:30] INFO loss", {}),
        ("step 0.31s", {}),
        ("step 31ms step 5", {"step": 5}),
        ("step 5 step 31 ms", {"step": 5}),
        ("lr_step=0.1 step 5", {"step": 5}),
        ("Namespace(batch_size=32, lr_step=10, time_step=3, start_step=0)", {}),
        ("sec/step: 0.31 step: 7", {"step": 7}),
        ("45it [00:01, 40it/s]", {"it": 45}),
        ("train: 0it [00:00, ?it/s]", {"it": 0}),
        ("1200it [1:02:03, 40.1it/s]", {"it": 1200}),
        ('{"step": 5, "resumed": false}', {"step": 5}),
        ('{"resumed": false, "step": 5}', {"step": 5}),
        ("resume_train INFO step 5", {"step": 5}),
        ("data loading 0.1s step 5", {"step": 5}),
        ("/home/u/checkpoint/train.py step 5", {"step": 5}),
        ("Saving model checkpoint to out/checkpoint-500 at step 500", {}),
        ("Loading checkpoint shards:  50%|##  | 1/2 [00:01<00:01]", {}),
    ],
)
def test_which_counters_a_line_tells(line, told):
    assert counters_in(line) == told


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        (r"(\d+)", {"step of --step-pattern": 7}),
        (r"(?P<epoch>\d+)/(\d+)", {"epoch": 7, "step of --step-pattern": 9}),
        (r"(\d)/(?P<step>\d+)", {"step of --step-pattern": 9}),
        (r"([a-z]+)", {}),
        (r"(x)?7", {}),
    ],
)
def test_a_pattern_of_ones_own(pattern, told):
    assert counters_in("7/9 step 3 go", re.compile(pattern)) == told


def rounds(*outputs: list[str]) -> list[Round]:
    found = []
    for output in outputs:
        progress = Progress()
        for line in output:
            progress.read(line)
        last = len(found) == len(outputs) - 1
        found.append(Round("end" if last else "kill", ["kill"], progress, 0 if last else -9))
    return found


def steps(first: int, last: int, form: str = "step {n}", per_epoch: int = 30) -> list[str]:
    return [form.format(n=n, e=n // per_epoch, s=n % per_epoch) for n in range(first, last + 1)]


ANEW, ON = "Epoch {e} step {s}", "Epoch {e} step {n}"


@pytest.mark.parametrize("form", ["step {n}", ANEW, ON, "{{'epoch': {e}.5, 'step': {n}}}"])
def test_the_loss_is_what_was_done_twice(form):
    seen = rounds(steps(1, 50, form), steps(21, 65, form), steps(66, 99, form))
    judged = judge(seen)
    assert [cost.lost for cost in judged] == [30, 0]
    assert problems(seen, judged) == []
    assert passed(seen, judged) == "it resumed each time; most steps lost by one stop: 30"
    assert "30 steps" in table(seen, judged)


@pytest.mark.parametrize("form", ["step {n}", ANEW, ON, "epoch {e}: batch {s}"])
@pytest.mark.parametrize("stop", [9, 29, 30, 50])
def test_one_that_never_saves_began_from_the_beginning(form, stop):
    seen = rounds(steps(0, stop, form), steps(0, 59, form))
    judged = judge(seen)
    assert judged[0].over
    assert judged[0].lost == stop + 1
    assert "began from the beginning" in problems(seen, judged)[0]
    assert "all of them" in table(seen, judged)


def test_an_epoch_told_on_a_line_of_its_own_counts_for_the_steps_after_it():
    def output(first: int, last: int) -> list[str]:
        return [f"Epoch {n // 30}\n{n % 30}/30 [=>..]" for n in range(first, last + 1)]

    def lines(first: int, last: int) -> list[str]:
        return [line for text in output(first, last) for line in text.split("\n")]

    seen = rounds(lines(0, 40), lines(30, 59))
    judged = judge(seen)
    assert (judged[0].lost, judged[0].over) == (11, False)


def test_an_epoch_that_is_told_in_one_run_only_is_not_compared():
    # Two streams of one program: which of them comes first differs from run to run.
    seen = rounds(["step 0", "Epoch 0", "step 1", "step 2"], ["Epoch 0", "step 0", "step 1"])
    assert judge(seen)[0].over


def test_epochs_alone_are_compared_where_nothing_finer_grows():
    seen = rounds(
        ["batch: 32", *steps(1, 5, "epoch {n}")],
        ["batch: 32", *steps(4, 9, "epoch {n}")],
    )
    judged = judge(seen)
    assert compared([round_.progress for round_ in seen]) == "epoch"
    assert passed(seen, judged) == "it resumed each time; most epochs lost by one stop: 2"


def test_steps_that_begin_anew_without_an_epoch_tell_no_loss():
    seen = rounds([*steps(0, 29), *steps(0, 9)], steps(5, 29))
    judged = judge(seen)
    assert problems(seen, judged) == []
    assert "how much was lost cannot be told" in passed(seen, judged)
    again = rounds([*steps(0, 29), *steps(0, 9)], steps(0, 29))
    assert "print the epoch beside the step" in problems(again, judge(again))[0]


@pytest.mark.parametrize("line", ["epoch 0", "step 0", "Epoch 0 step 0"])
def test_what_was_never_seen_beyond_its_beginning_cannot_be_told(line):
    seen = rounds([line, line], [line], [line])
    assert "cannot tell whether it resumed" in problems(seen, judge(seen))[0]


def test_a_stop_at_the_first_step_is_counted_as_not_told():
    seen = rounds(steps(0, 0), steps(0, 9), steps(10, 20))
    judged = judge(seen)
    assert problems(seen, judged) == []
    assert passed(seen, judged).startswith("it resumed after 1 of 2 stops; the rest cannot be told")


def bar(*done: int, total: int = 300) -> list[str]:
    return [f"  9%|#   | {n}/{total} [00:01<00:02,  9.9it/s]" for n in done]


def test_of_several_bars_the_longest_is_compared():
    first = [*bar(0, 2, 4, total=4), *bar(*range(41)), *bar(0, 5, 10, total=10), *bar(41, 42)]
    seen = rounds(first, [*bar(0, 2, 4, total=4), *bar(*range(31, 80))], bar(80, 81, 82))
    judged = judge(seen)
    assert problems(seen, judged) == []
    assert [cost.lost for cost in judged] == [12, 0]


def test_a_bar_whose_first_frames_differ_began_from_the_beginning():
    seen = rounds(bar(0, 4, 9, 14, 19), bar(0, 7, 12, 17))
    assert judge(seen)[0].over
    assert "initial=" in problems(seen, judge(seen))[0]


def test_a_bar_of_the_rest_alone_cannot_be_told():
    seen = rounds(bar(0, 4, 9, 14), bar(0, 4, 9, total=290))
    assert "cannot tell whether it resumed" in problems(seen, judge(seen))[0]


def test_an_epoch_that_is_told_late_makes_no_steps_begin_anew():
    late = "{{'loss': 0.1, 'epoch': {epoch}}}"
    seen = rounds(
        [*bar(*range(53)), late.format(epoch=1.02), *bar(*range(53, 60))],
        [*bar(50, 51), late.format(epoch=1.0), *bar(*range(52, 99))],
    )
    assert [cost.lost for cost in judge(seen)] == [10]


@pytest.mark.parametrize(("act", "words"), [("term at 0.1 s", "after SIGTERM"), ("warn at 0.1 s", "after a warning")])
def test_one_that_ends_with_0_when_told_to_stop_fails(act, words):
    seen = rounds(steps(1, 40), steps(41, 99))
    seen[0].done, seen[0].code = [act], 0
    assert not seen[0].over
    assert until_end(seen) == seen
    [problem] = problems(seen, judge(seen))
    assert f"{words}, it ended with 0, which says done" in problem
    assert "end with 75" in problem


@pytest.mark.parametrize("after", [[], steps(99, 99), steps(1, 99)], ids=["nothing", "the last", "all anew"])
def test_a_stop_that_came_in_the_last_moment_is_no_early_end(after):
    seen = rounds(steps(1, 60), steps(50, 99), after)
    seen[1].code = 0
    assert len(until_end(seen)) == 2
    assert problems(until_end(seen), judge(until_end(seen))) == []


def test_a_first_round_that_ended_with_0_after_a_stop_is_told_of_75():
    seen = rounds(steps(1, 40))
    assert "end with 75" in problems(seen, judge(seen))[0]
    seen[0].done = []
    assert "no stop was played" in problems(seen, judge(seen))[0]


def test_a_long_line_is_read_in_no_time():
    line = "[" + ", ".join(f'{{"loss": 0.1, "step": {n}}}' for n in range(1600)) + "]"
    begun = time.process_time()
    assert counters_in(line) == {"step": 0}
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    "named",
    [
        ["weights: pk/model-step-20"],
        ["using runs/epoch=1-step=40.ckpt"],
        ["starting at step 35"],
        ["using runs/epoch=1-step=40.ckpt", "starting at step 35"],
    ],
)
def test_a_checkpoint_that_is_only_named_is_no_resume(named):
    seen = rounds(steps(0, 45), [*named, *steps(0, 59)])
    judged = judge(seen)
    assert judged[0].over
    assert "began from the beginning" in problems(seen, judged)[0]


@pytest.mark.parametrize("setting", ["batch: 32", "Namespace(batch=32, lr_step=10)"])
def test_a_setting_with_the_counters_name_is_not_where_it_begins(setting):
    seen = rounds([setting, *steps(0, 20, "batch {n}")], [setting, *steps(0, 59, "batch {n}")])
    assert judge(seen)[0].over


def test_a_second_rehearsal_in_the_same_directory_is_told_of_the_checkpoints():
    seen = rounds(["already done"])
    seen[0].done = []
    assert "use a fresh directory" in problems(seen, judge(seen))[0]
    seen[0].code = 1
    assert "use a fresh directory" not in problems(seen, judge(seen))[0]


def test_one_that_prints_by_time_and_keeps_nothing_cannot_be_told():
    seen = rounds(steps(34, 140)[::35], steps(35, 160)[::35], steps(36, 400)[::35])
    judged = judge(seen)
    assert not any(cost.over for cost in judged)
    [problem] = problems(seen, judged)
    assert "cannot tell whether it resumed" in problem
    assert "longer --within" in problem


def test_a_late_resume_loses_much_of_one_start_and_still_passes():
    seen = rounds(steps(0, 25), steps(20, 27), steps(20, 60))
    judged = judge(seen)
    assert problems(seen, judged) == []
    assert passed(seen, judged) == "it resumed each time; most steps lost by one stop: 8"


def test_steps_that_no_start_has_shown_are_said():
    seen = rounds(steps(0, 40), steps(60, 99))
    judged = judge(seen)
    assert problems(seen, judged) == []
    assert "between rounds 1 and 2, 19 steps were never seen" in passed(seen, judged)
    by_tens = rounds(steps(0, 40)[::10], steps(50, 99)[::10])
    assert "never seen" not in passed(by_tens, judge(by_tens))


def test_a_bar_that_leaps_from_0_to_the_resumed_place_begins_there():
    seen = rounds(bar(*range(46), total=100), bar(0, *range(41, 100), total=100))
    judged = judge(seen)
    assert problems(seen, judged) == []
    assert judged[0].lost == 5


@pytest.mark.parametrize(("stop", "said"), [(20, True), (40, False)])
def test_one_stopped_in_its_first_epoch_may_save_once_in_each(stop, said):
    seen = rounds(steps(0, stop, ANEW), steps(0, 59, ANEW))
    [problem] = problems(seen, judge(seen))
    assert "began from the beginning" in problem
    assert ("inside its first epoch" in problem) == said


def test_a_start_whose_bar_was_seen_at_0_alone_is_not_judged():
    seen = rounds(bar(*range(46)), bar(0, 41), bar(0), bar(0, *range(41, 100)))
    judged = judge(seen)
    assert problems(seen, judged) == []
    assert passed(seen, judged).startswith("it resumed after 1 of 3 stops; the rest cannot be told")
    assert "never seen" not in passed(seen, judged)
    assert "41-99" in table(seen, judged)
