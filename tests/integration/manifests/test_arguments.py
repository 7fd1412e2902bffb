"""Any argument vector of valid UTF-8 survives kubectl's YAML reader and the kubelet's expansion of ``$(NAME)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from forewarn_manifests import flags, profile
from forewarn_manifests.launch import launch
from forewarn_manifests.render import as_json, manifest
from tests.unit.manifests.golden import ALICE

Arrives = Callable[[str], dict[str, Any]]
LAUNCH = profile.load("launch", "test")

words = st.text(st.characters(codec="utf-8", exclude_characters="\0")) | st.text(
    st.sampled_from("$()'\"\\ \n\t\r{}:#-é😀\u2028\x85\x7f\ufeff\ufffeAHOME%!&*`@|>~"), max_size=12
)
thorough = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@thorough
@given(vector=st.lists(words, min_size=1, max_size=6))
@example(vector=["$(HOME)", "$$(HOME)", "$$", "$", "$é", "a$", "", "$($(HOME))", "$(HOME"])
@example(vector=["-c", "--", "-B", "--help"])
@example(vector=["x" * 100_000])
def test_every_argument_arrives_unchanged(arrives: Arrives, vector: list[str]) -> None:
    request = launch(flags.parse(["-B", "--", *vector]), {}, LAUNCH, ALICE)
    for text in (manifest(request), as_json(manifest(request)), manifest(request, explain=True)):
        got = arrives(text)
        assert "error" not in got
        assert got["args"] == vector


@thorough
@given(value=words.filter(bool), annotation=words)
def test_every_exported_variable_and_annotation_arrives_unchanged(
    arrives: Arrives, value: str, annotation: str
) -> None:
    environ = {"K8S_EXPORT_ENV_PREFIX": "P_", "P_VALUE": value, "P_HOME": "/else"}
    request = launch(flags.parse(["-A", f"note={annotation}", "-s"]), environ, LAUNCH, ALICE)
    got = arrives(manifest(request))
    assert "error" not in got
    assert got["env"]["VALUE"] == value
    assert got["env"]["HOME"] == "/else"


def test_the_entrypoint_is_taken_as_it_is_written(arrives: Arrives) -> None:
    request = launch(flags.parse(["--entrypoint", "/opt/$(HOME)/run me", "-s"]), {}, LAUNCH, ALICE)
    assert arrives(manifest(request))["command"] == ["/opt/$(HOME)/run me"]
