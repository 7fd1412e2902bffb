"""The main job on a real cluster, told by scenarios: what the student's pod reads, and what `kubectl` says about it.

Those that disturb nobody are played side by side; those that take a part of the operator away come after, one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from forewarn import kube
from forewarn.contract import Keys
from forewarn.errors import UserError
from forewarn.simulator import command, report, scenario
from forewarn.simulator.runner import Played, Runner
from tests.support.cluster import FAILURES, SESSIONS, Cluster
from tests.support.programs import program

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = Path(__file__).parent / "scenarios"
DISRUPTIVE = ("operator-restarted", "webhook-down")
GENTLE = sorted(path.stem for path in SCENARIOS.glob("*.yaml") if path.stem not in DISRUPTIVE)
DEMO = ROOT / "examples/demo"
KEYS = Keys()


@dataclass(frozen=True)
class Outcome:
    """A scenario as it was played, the error that kept it from that, or why this cluster cannot play it."""

    played: Played | None = None
    error: UserError | None = None
    skipped: str = ""


def path_of(name: str) -> Path:
    return DEMO / "scenario.yaml" if name == "demo" else SCENARIOS / f"{name}.yaml"


def hindrance(name: str, cluster: Cluster, namespace: str) -> str:
    """Return why a scenario cannot be played here: the demo's two pods meet in a directory of their node."""
    return (cluster.why_no_host_path(namespace) or cluster.why_not_one_node()) if name == "demo" else ""


async def play(name: str, cluster: Cluster, namespace: str) -> Outcome:
    if why := hindrance(name, cluster, namespace):
        return Outcome(skipped=why)
    tools = str(Path(program("kubectl")).parent)
    environ = os.environ | {
        kube.VARIABLE: cluster.kubeconfig,
        "PATH": f"{tools}:{os.environ['PATH']}",
    }
    try:
        read = scenario.read(path_of(name), command.surroundings(KEYS, cluster.image))
        async with kube.async_client(kube.connect(cluster.kubeconfig)) as client:
            return Outcome(await Runner(read, client, namespace, environ=environ).play())
    except UserError as error:
        return Outcome(error=error)


def check(name: str, outcome: Outcome) -> None:
    """Fail with the timeline, and keep what the cluster showed."""
    if outcome.skipped:
        pytest.skip(f"{name}: {outcome.skipped}")
    if outcome.error:
        pytest.fail(f"{name}: {outcome.error}", pytrace=False)
    assert outcome.played
    if outcome.played.passed:
        return
    folder = FAILURES / f"scenario-{name}"
    command.keep(folder, outcome.played.kept)
    out = io.StringIO()
    with report.Screen(out, io.StringIO(), KEYS) as screen:
        screen.end(outcome.played)
    pytest.fail(f"{out.getvalue()}\nkept: {folder}", pytrace=False)


@pytest.fixture(scope="module")
def outcomes(operator: Cluster) -> Iterator[dict[str, Outcome]]:
    """Every gentle scenario, and the demo, played at once, each in a namespace of its own."""
    names = [*GENTLE, "demo"]
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setenv("FOREWARN_PROFILES", str(DEMO / "profiles"))
        spaces = {name: stack.enter_context(operator.namespace(SESSIONS, f"e2e-{name}")) for name in names}

        async def everything() -> list[Outcome]:
            return await asyncio.gather(*(play(name, operator, spaces[name]) for name in names))

        yield dict(zip(names, asyncio.run(everything()), strict=True))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [*GENTLE, "demo"])
def test_scenario(name: str, outcomes: dict[str, Outcome]) -> None:
    check(name, outcomes[name])


@pytest.mark.disruptive
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", DISRUPTIVE)
def test_scenario_without_a_part_of_the_operator(name: str, operator: Cluster, session_namespace: str) -> None:
    check(name, asyncio.run(play(name, operator, session_namespace)))
