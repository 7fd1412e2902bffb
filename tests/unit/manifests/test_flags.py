"""The parser's conventions: bundles, values, long options, the end of the launcher's options."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.cli import main
from forewarn_manifests import flags
from forewarn_manifests.flags import Arguments, parse

FIELD = set("cmglviPEWGTMFxnNtAbBfsSjJHuqQdh")
VARIABLES = {
    "K8S_NUM_CPU",
    "K8S_GB_MEM",
    "K8S_NUM_GPU",
    "K8S_DOCKER_IMAGE",
    "K8S_IMAGE_PULL_POLICY",
    "K8S_TIMEOUT_SECONDS",
    "K8S_ENTRYPOINT",
    "SPAWN_INTERACTIVE_SHELL",
    "PROXY_ENABLED",
    "PROXY_PORT",
    "K8S_EXPORT_ENV_PREFIX",
}
word = st.text(max_size=8)


def brief(arguments: Arguments) -> list[tuple[str, str]]:
    return [(given.flag.long, given.value) for given in arguments.given]


def test_every_flag_and_variable_of_the_field_is_there() -> None:
    assert set(flags.BY_SHORT) == FIELD
    assert {flag.variable for flag in flags.FLAGS} >= VARIABLES


def test_every_flag_has_a_long_option_of_its_own() -> None:
    assert len(flags.BY_LONG) == len(flags.FLAGS)


@pytest.mark.parametrize(
    "argv",
    [["-b", "-S", "-g", "1"], ["-bS", "-g1"], ["-bSg1"], ["-bSg", "1"], ["--background", "--no-shell", "--gpus=1"]],
)
def test_bundles_and_long_options_mean_the_same(argv: list[str]) -> None:
    assert brief(parse(argv)) == [("background", "yes"), ("no-shell", "no"), ("gpus", "1")]


@pytest.mark.parametrize("argv", [["-b", "python", "-m", "x", "--"], ["-b", "--", "python", "-m", "x", "--"]])
def test_the_first_word_that_is_no_flag_begins_the_command(argv: list[str]) -> None:
    assert parse(argv).command == ("python", "-m", "x", "--")


def test_a_value_may_look_like_a_flag_and_be_empty() -> None:
    assert brief(parse(["-A", "-b", "-N", "", "--name="])) == [("annotation", "-b"), ("name", ""), ("name", "")]


def test_requeue_takes_its_value_only_behind_an_equals_sign() -> None:
    assert brief(parse(["--requeue", "--", "always"])) == [("requeue", "yes")]
    assert parse(["--requeue", "--", "always"]).command == ("always",)
    assert parse(["--requeue", "train.sh"]).command == ("train.sh",)
    assert brief(parse(["--requeue=always"])) == [("requeue", "always")]


@given(st.lists(word))
def test_whatever_stands_behind_the_dashes_is_untouched(words: list[str]) -> None:
    assert parse(["-c", "2", "--", *words]).command == tuple(words)


@given(st.text(), st.text())
def test_any_value_is_taken_as_it_is(first: str, second: str) -> None:
    got = parse(["--annotation", first, f"--label={second}", "-A", first])
    assert [given.value for given in got.given] == [first, second, first]


def test_help_names_every_flag_and_variable(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "--help"]) == 0
    text = capsys.readouterr().out
    for flag in flags.FLAGS:
        assert f"  {flag.spellings} " in text
        assert flag.variable in text


def test_teams_are_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["render", "-G", "list"]) == 0
    assert "names no teams" in capsys.readouterr().out
    monkeypatch.setenv("FOREWARN_PROFILES", str(Path(__file__).parents[2] / "cases/render/profiles"))
    assert main(["render", "--profile", "campus", "-G", "list"]) == 0
    assert capsys.readouterr().out == "vision  70001\nspeech  70002\n"


@pytest.mark.parametrize(
    ("argv", "plan"),
    [
        (["-b", "-N", "a"], {"mode": "background", "name": "a", "port": "", "quiet": "0"}),
        (["--number", "7", "--user", "Ann.B", "-q"], {"mode": "interactive", "name": "ann-b-7", "port": "8888"}),
        (["-S", "-Q"], {"mode": "foreground", "quiet": "2"}),
        (["-H"], {"mode": "ssh", "port": "2222", "quiet": "1"}),
        (["-d"], {"mode": "dump"}),
        (["--requeue", "-N", "a", "--", "x"], {"mode": "batch", "name": "a"}),
    ],
)
def test_a_wrapper_is_told_what_to_do(argv: list[str], plan: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "plan"
    assert main(["render", "--plan", str(path), *argv]) == 0
    told = dict(line.partition("=")[::2] for line in path.read_text().splitlines())
    assert {key: told[key] for key in plan} == plan


def test_silent_hushes_warnings_and_quiet_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    main(["render", "-q"])
    assert capsys.readouterr().err.startswith("warning: what is written to /home/")
    main(["render", "-Q"])
    assert capsys.readouterr().err == ""
