"""``forewarn simulate`` against a real API server: what stands in its way is one line, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lightkube import AsyncClient
from lightkube.resources.core_v1 import Pod

from forewarn import contract, kube
from forewarn.contract import Keys
from tests.integration.simulator.kubelet import EXIT_CODE, WAITING, Kubelet
from tests.support.apiserver import ApiServer

POD = f"""
pods:
  train:
    manifest:
      apiVersion: v1
      kind: Pod
      metadata: {{annotations: {{{EXIT_CODE}: "75"}}}}
      spec:
        nodeName: n
        terminationGracePeriodSeconds: 600
        containers: [{{name: main, image: i}}]
steps:
"""
AT = Keys().key(contract.WARNING_AT)


@pytest.fixture
async def client(api_server: ApiServer) -> AsyncIterator[AsyncClient]:
    async with kube.async_client(kube.connect(str(api_server.kubeconfig))) as client:
        yield client


@pytest.fixture
async def kubelet(client: AsyncClient, namespace: str) -> AsyncIterator[Kubelet]:
    async with Kubelet(client, namespace) as kubelet:
        yield kubelet


class Simulation:
    """One run of the command; ``until`` waits for a line of its progress."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.progress = process, ""

    async def until(self, text: str) -> None:
        assert self.process.stderr
        while text not in self.progress:
            line = await asyncio.wait_for(self.process.stderr.readline(), 30)
            assert line, f"ended without {text!r}: {self.progress}"
            self.progress += line.decode()

    async def end(self) -> tuple[int, str, str]:
        out, err = await asyncio.wait_for(self.process.communicate(), 60)
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), self.progress + err.decode()


Start = Callable[..., Any]


@pytest.fixture
async def start(tmp_path: Path, api_server: ApiServer, namespace: str) -> AsyncIterator[Start]:
    """Starts ``forewarn simulate`` with steps (behind one pod) or a whole scenario."""
    running: list[asyncio.subprocess.Process] = []

    async def start(
        text: str, *flags: str, kubeconfig: Path | None = None, in_namespace: str = namespace
    ) -> Simulation:
        path = tmp_path / "s.yaml"
        path.write_text(text if text.startswith("pods:") else POD + text)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "forewarn.cli", "simulate", str(path), "-n", in_namespace, *flags),
            env=os.environ | {"KUBECONFIG": str(kubeconfig or api_server.kubeconfig)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        running.append(process)
        return Simulation(process)

    yield start
    for process in running:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def pods(client: AsyncClient, namespace: str) -> list[str]:
    return [
        pod.metadata.name async for pod in client.list(Pod, namespace=namespace) if pod.metadata and pod.metadata.name
    ]


ANSWERED = "it has its answer"
WARN = f"  - warn: now+15m\n  - run: [echo, {ANSWERED}]\n"
"""A warning, and a step that is told of once the simulator has the API server's answer to it."""


def one_line(err: str) -> str:
    (line,) = err.strip().splitlines()
    assert line.startswith("error: ")
    return line


# ── it works ─────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_scenario_is_played_and_leaves_nothing(
    start: Start, kubelet: Kubelet, client: AsyncClient, namespace: str
) -> None:
    run = await start("  - warn: {at: start+15m, risk: 0.33}\n  - {at: +500ms, change: {risk: 1.00}}\n", "--json")
    code, out, _ = await run.end()
    content = json.loads(out)
    assert (code, content["passed"]) == (0, True)
    assert [row["did"].partition(":")[0] for row in content["rows"]] == [
        "created the pod",
        "warned",
        "changed the warning",
    ]
    assert await pods(client, namespace) == []


async def test_a_preemption_is_an_ordinary_delete_that_the_controller_explains(
    start: Start, kubelet: Kubelet, client: AsyncClient, namespace: str
) -> None:
    text = (
        "  - preempt:\n  - expect-exit: 75\n  - expect-grace: {seconds: 600, lasted-at-most: 30s}\n  - expect-gone:\n"
    )
    text += f"  - expect-event: {{reason: Preempted, from: {contract.RESERVATION_CONTROLLER}, count: 1}}\n"
    code, out, err = await (await start(text)).end()
    assert code == 0, out + err
    assert "passed: 4 of 4 expectations met" in out


async def test_an_existing_pod_is_followed_and_stays(
    start: Start, kubelet: Kubelet, client: AsyncClient, namespace: str
) -> None:
    made = Pod.from_dict(
        {"metadata": {"name": "mine"}, "spec": {"nodeName": "n", "containers": [{"name": "m", "image": "i"}]}}
    )
    create: Any = client.create
    await create(made, namespace=namespace)
    text = "pods:\n  mine: {existing: }\nsteps:\n  - warn: now+15m\n"
    code, out, err = await (await start(text)).end()
    assert code == 0, out + err
    pod = await client.get(Pod, "mine", namespace=namespace)
    assert pod.metadata
    assert set(pod.metadata.annotations or {}) == {Keys().key(name) for name in contract.WARNING_NAMES}


async def test_keep_leaves_the_pod(start: Start, kubelet: Kubelet, client: AsyncClient, namespace: str) -> None:
    code, out, err = await (await start("  - warn: now+15m\n", "--keep")).end()
    assert code == 0, out + err
    assert await pods(client, namespace) == ["train"]


async def test_another_prefix_is_written(start: Start, kubelet: Kubelet, client: AsyncClient, namespace: str) -> None:
    code, out, err = await (await start("  - warn: now+15m\n", "--keep", "--annotation-prefix", "horae")).end()
    assert code == 0, out + err
    pod = await client.get(Pod, "train", namespace=namespace)
    assert pod.metadata
    assert f"horae/{contract.WARNING_AT}" in (pod.metadata.annotations or {})


async def test_a_program_is_run_with_the_clusters_kubeconfig(
    start: Start, kubelet: Kubelet, api_server: ApiServer
) -> None:
    text = f"  - run: [bash, -c, '[[ $KUBECONFIG == {api_server.kubeconfig} ]]']\n"
    code, out, err = await (await start(text)).end()
    assert code == 0, out + err


# ── it fails as it should ────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_failed_expectation_is_exit_1_named_last_and_cleaned_up(
    start: Start, kubelet: Kubelet, client: AsyncClient, namespace: str, tmp_path: Path
) -> None:
    text = "  - warn: now+15m\n  - expect-event: {reason: TerminationWarning, within: 500ms}\n  - withdraw:\n"
    code, out, err = await (await start(text, "--failures", str(tmp_path / "kept"))).end()
    assert code == 1
    first, second = out.splitlines()[-2:]
    assert first == "FAILED: 0 of 1 expectation met, 1 step not done"
    assert second.endswith(":14: expect-event: 0 TerminationWarning of 1 or more after 0.5 s")
    assert await pods(client, namespace) == []
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {
        "timeline.json",
        "train.yaml",
        "train.log",
        "train.events.json",
    }
    assert AT in (tmp_path / "kept/train.yaml").read_text()
    assert f"kept for a closer look: {tmp_path / 'kept'}" in err


async def test_a_pod_that_never_starts_says_why(
    start: Start, kubelet: Kubelet, client: AsyncClient, namespace: str
) -> None:
    text = POD.replace(f'{EXIT_CODE}: "75"', f"{WAITING}: ImagePullBackOff") + "  - create: 1s\n  - withdraw:\n"
    code, out, err = await (await start(text.lstrip())).end()
    assert code == 1, out + err
    assert "it does not run: container main: ImagePullBackOff: so says the test after 1 s" in out
    assert await pods(client, namespace) == []


async def test_a_pod_that_vanishes_fails_the_next_step(
    start: Start, kubelet: Kubelet, client: AsyncClient, namespace: str
) -> None:
    run = await start(WARN + "  - expect-gone:\n  - withdraw:\n")
    await run.until(ANSWERED)
    await client.delete(Pod, "train", namespace=namespace, grace_period=0)
    code, out, _ = await run.end()
    assert code == 1
    assert 'withdraw: cannot withdraw pod train: pods "train" not found' in out
    assert "somebody else deleted the pod" in out or "the container ended by itself" in out or "created the pod" in out


async def test_a_program_that_fails_is_named_with_its_last_line(start: Start, kubelet: Kubelet) -> None:
    code, out, _ = await (await start("  - run: [bash, -c, 'echo one; echo two >&2; exit 3']\n")).end()
    assert code == 1
    assert "run: bash exited 3: two" in out


async def test_a_program_that_is_not_there(start: Start, kubelet: Kubelet) -> None:
    code, out, _ = await (await start("  - run: [no-such-program]\n")).end()
    assert code == 1
    assert "run: cannot run no-such-program: No such file or directory" in out


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_ctrl_c_cleans_up(
    start: Start, kubelet: Kubelet, client: AsyncClient, namespace: str, number: int, expected: int
) -> None:
    run = await start("  - warn: now+15m\n  - {at: 5m, withdraw: }\n")
    await run.until("warned")
    run.process.send_signal(number)
    code, _, err = await run.end()
    assert code == expected
    assert "Traceback" not in err
    assert await pods(client, namespace) == []


async def test_the_scenarios_own_cleanup_is_done_after_a_failure(
    start: Start, kubelet: Kubelet, tmp_path: Path
) -> None:
    text = "  - expect-event: {reason: SessionEnded, within: 0s}\n"
    text += f"cleanup:\n  - run: [touch, {tmp_path / 'cleaned'}]\n  - run: ['false']\n"
    code, out, _ = await (await start(text)).end()
    assert code == 1
    assert (tmp_path / "cleaned").exists()
    assert "left behind: " in out
    assert ":16: false exited 1: no output" in out


# ── what stands in the way ───────────────────────────────────────────────────────────────────────────────────────────
async def test_a_namespace_that_is_not_there(start: Start) -> None:
    code, out, err = await (await start("  - withdraw:\n", in_namespace="nowhere")).end()
    assert (code, out) == (2, "")
    assert one_line(err) == 'error: cannot use namespace nowhere: namespaces "nowhere" not found'


async def test_no_permission_names_every_right_that_is_missing(
    start: Start, api_server: ApiServer, client: AsyncClient, namespace: str
) -> None:
    nobody = api_server.kubeconfig_of_user("nobody")
    text = "  - warn: now\n  - expect-file: termination-warning-at\n  - expect-event: TerminationWarning\n"
    code, _, err = await (await start(text, kubeconfig=nobody)).end()
    assert code == 2
    for right in ("create pods", "patch pods", "delete pods", "get pods/exec", "list events", "watch events"):
        assert right in one_line(err)
    assert await pods(client, namespace) == []


async def test_a_manifest_that_the_server_refuses_touches_nothing(
    start: Start, client: AsyncClient, namespace: str
) -> None:
    good = POD.replace("steps:\n", "").rstrip() + "\n  bad:\n    manifest:\n      apiVersion: v1\n      kind: Pod\n"
    text = good + "      spec: {containers: [{name: Main_1, image: i}]}\nsteps:\n  - {pod: bad, withdraw: }\n"
    code, _, err = await (await start(text.lstrip())).end()
    assert code == 2
    assert "cannot create pod 'bad'" in one_line(err)
    assert "spec.containers[0].name: Invalid value" in one_line(err)
    assert await pods(client, namespace) == []


async def test_a_pod_of_that_name_is_not_touched(
    start: Start, kubelet: Kubelet, client: AsyncClient, namespace: str
) -> None:
    assert (await (await start("  - withdraw:\n", "--keep")).end())[0] == 0
    code, _, err = await (await start("  - preempt:\n")).end()
    assert code == 2
    assert 'pods "train" already exists; delete it first, or choose another name' in one_line(err)
    assert await pods(client, namespace) == ["train"]


async def test_an_existing_pod_that_is_not_there(start: Start) -> None:
    code, _, err = await (await start("pods:\n  mine: {existing: }\nsteps:\n  - withdraw:\n")).end()
    assert code == 2
    assert "cannot follow pod mine in namespace" in one_line(err)
    assert 'pods "mine" not found' in one_line(err)


async def test_a_manifest_for_another_namespace(start: Start) -> None:
    text = POD.replace("metadata: {", "metadata: {namespace: other, ")
    code, _, err = await (await start(text.lstrip() + "  - withdraw:\n")).end()
    assert code == 2
    assert "is for namespace 'other'" in one_line(err)


async def test_no_cluster(start: Start, tmp_path: Path, api_server: ApiServer) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(api_server.kubeconfig.read_text().replace(str(api_server.port), "1"))
    code, _, err = await (await start("  - withdraw:\n", kubeconfig=kubeconfig)).end()
    assert code == 2
    assert "refuses the connection; start the cluster, or name another cluster" in one_line(err)


async def test_no_kubeconfig(start: Start, tmp_path: Path) -> None:
    code, _, err = await (await start("  - withdraw:\n", kubeconfig=tmp_path / "none")).end()
    assert code == 2
    assert "there is no such file" in one_line(err)


# ── the cluster goes away in the middle ──────────────────────────────────────────────────────────────────────────────
@pytest.fixture(scope="module")
def mortal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer.start(tmp_path_factory.mktemp("mortal")) as server:
        yield server


@pytest.fixture
def own_server(mortal_server: ApiServer) -> ApiServer:
    """A server that a test may kill."""
    mortal_server.start_again()
    return mortal_server


@pytest.fixture
def team(own_server: ApiServer, request: pytest.FixtureRequest) -> str:
    return own_server.create_namespace(f"team-{zlib.crc32(request.node.name.encode())}")


async def test_a_short_absence_of_the_server_is_survived(start: Start, own_server: ApiServer, team: str) -> None:
    async with kube.async_client(kube.connect(str(own_server.kubeconfig))) as client, Kubelet(client, team):
        text = WARN + "  - expect-event: {reason: Late, from: test, within: 60s}\n"
        run = await start(text, kubeconfig=own_server.kubeconfig, in_namespace=team)
        await run.until(ANSWERED)
        await asyncio.to_thread(own_server.kill)
        await asyncio.to_thread(own_server.start_again)
        pod = await client.get(Pod, "train", namespace=team)
        assert pod.metadata
        create: Any = client.create
        await create(
            kube.AnyEvent(
                metadata={"name": "late"},
                regarding={"kind": "Pod", "namespace": team, "name": "train", "uid": pod.metadata.uid},
                reason="Late",
                note="n",
                type="Normal",
                action="a",
                eventTime="2026-11-29T19:30:00.000000Z",
                reportingController="test",
                reportingInstance="t",
            ),
            namespace=team,
        )
        code, out, err = await run.end()
    assert code == 0, out + err


async def test_a_cluster_that_stays_away_ends_the_scenario(start: Start, own_server: ApiServer, team: str) -> None:
    async with kube.async_client(kube.connect(str(own_server.kubeconfig))) as client:
        async with Kubelet(client, team):
            run = await start(WARN + "  - {at: 5m, withdraw: }\n", kubeconfig=own_server.kubeconfig, in_namespace=team)
            await run.until(ANSWERED)
        await asyncio.to_thread(own_server.kill)
        code, _, err = await run.end()
    assert code == 2
    last = err.strip().splitlines()[-1]
    assert last.startswith("error: cannot watch ")
    assert "refuses the connection" in last
    assert "Traceback" not in err


async def test_a_write_while_the_cluster_is_away_is_one_line_and_says_what_is_left(
    start: Start, own_server: ApiServer, team: str, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    wait = f"  - run: [bash, -c, 'until [ -e {away} ]; do sleep 0.05; done']\n  - withdraw:\n"
    async with kube.async_client(kube.connect(str(own_server.kubeconfig))) as client:
        async with Kubelet(client, team):
            run = await start(WARN + wait, kubeconfig=own_server.kubeconfig, in_namespace=team)
            await run.until(ANSWERED)
        await asyncio.to_thread(own_server.kill)
        away.touch()
        code, _, err = await run.end()
    assert code == 2
    assert "cannot withdraw pod train" in err
    assert f"kubectl -n {team} delete pod train" in err
    assert "Traceback" not in err


async def test_annotations_written_are_exactly_the_controllers(
    start: Start, kubelet: Kubelet, client: AsyncClient, namespace: str
) -> None:
    text = "  - queue: {until: start+1h}\n  - idle: warning\n  - remove: [termination-warning-message]\n"
    assert (await (await start(text, "--keep")).end())[0] == 0
    pod = await client.get(Pod, "train", namespace=namespace)
    assert pod.metadata
    keys = Keys()
    assert set(pod.metadata.annotations or {}) == {
        EXIT_CODE,
        *(keys.key(name) for name in (contract.GUARANTEED_UNTIL, contract.WARNING_AT, contract.WARNING_RISK)),
        keys.key(contract.IDLE_STATUS),
    }
