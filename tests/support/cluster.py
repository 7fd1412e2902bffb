"""The cluster that end-to-end tests run on: what they do on it, and what is kept of it when one fails."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from forewarn import contract
from tests.kind import cluster as made
from tests.kind.places import BUILD, NAMESPACE
from tests.support.programs import program
from tests.support.waiting import until

T = TypeVar("T")
FAILURES = BUILD / "failures"
SESSIONS = {contract.SESSIONS_LABEL: contract.SESSIONS_ENABLED}


class Cluster(made.Cluster):
    """A cluster, with what tests do on it."""

    def kubectl(self, *arguments: str, input: str | None = None, timeout: float = 60) -> str:  # noqa: A002
        """Run kubectl and return its output; ``RuntimeError`` with its words where it fails."""
        return self._kubectl(arguments, input, timeout).stdout

    def _kubectl(
        self, arguments: Sequence[str], text: str | None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        argv = [program("kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        ran = subprocess.run(argv, input=text, check=False, capture_output=True, text=True, timeout=timeout)
        if ran.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {ran.stderr.strip()}")
        return ran

    def get(self, namespace: str, kind: str, name: str = "", selector: str = "") -> Any:
        """Return one object, or the list of a kind's objects where no name is given."""
        words = ["get", kind, *([name] if name else []), f"--namespace={namespace}", "--output=json"]
        answer = json.loads(self.kubectl(*words, *([f"--selector={selector}"] if selector else [])))
        return answer if name else answer["items"]

    def create(self, namespace: str, manifest: Mapping[str, Any] | str) -> str:
        """Create what a manifest (an object, YAML or JSON) describes; return kubectl's output, warnings included."""
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        ran = self._kubectl(("create", "-f", "-", f"--namespace={namespace}"), text)
        return ran.stdout + ran.stderr

    def run_in(self, namespace: str, pod: str, *command: str, container: str = "") -> str:
        """Run a command in a container and return its output; ``RuntimeError`` where it fails."""
        chosen = [f"--container={container}"] if container else []
        return self.kubectl("exec", f"--namespace={namespace}", pod, *chosen, "--", *command)

    def annotate(self, namespace: str, pod: str, values: Mapping[str, str | None]) -> None:
        """Set annotations of a pod by their keys; ``None`` takes one away."""
        patch = json.dumps({"metadata": {"annotations": dict(values)}})
        self.kubectl("patch", "pod", pod, f"--namespace={namespace}", "--type=merge", f"--patch={patch}")

    def wait(self, namespace: str, pod: str, condition: str = "condition=Ready", timeout: float = 90) -> None:
        """Wait for a pod's condition, as ``kubectl wait --for`` spells it."""
        words = ("wait", f"pod/{pod}", f"--for={condition}", f"--namespace={namespace}", f"--timeout={timeout:g}s")
        self.kubectl(*words, timeout=timeout + 15)

    def events(self, namespace: str, pod: str = "") -> list[dict[str, Any]]:
        """Return our Events of a namespace (of one pod), oldest first."""
        ours = [
            event
            for event in self.get(namespace, "events.events.k8s.io")
            if event.get("reportingController") == contract.REPORTING_CONTROLLER
            and (not pod or event["regarding"].get("name") == pod)
        ]
        return sorted(ours, key=lambda event: str(event.get("eventTime") or ""))

    @contextlib.contextmanager
    def namespace(self, labels: Mapping[str, str] | None = None, prefix: str = "e2e") -> Iterator[str]:
        """Make a namespace and take it away afterwards; what is left in it gets no grace."""
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        made.make_namespace(self.kubeconfig, name, labels)
        try:
            self.until(lambda: self._has(name, "serviceaccount", "default"), f"the ServiceAccount of {name}", 30)
            yield name
        finally:
            self.kubectl(
                "delete", "pods", "--all", f"--namespace={name}", "--grace-period=0", "--force", "--wait=false"
            )
            self.kubectl("delete", "namespace", name, "--wait=false")

    def _has(self, namespace: str, kind: str, name: str) -> bool:
        return bool(self.kubectl("get", kind, name, f"--namespace={namespace}", "--ignore-not-found").strip())

    def why_no_host_path(self, namespace: str) -> str:
        """Return why pods of a namespace may not use a directory of their node; nothing where they may."""
        volumes = [{"name": "home", "hostPath": {"path": "/var/tmp", "type": "Directory"}}]
        spec = {"containers": [{"name": "main", "image": "none"}], "volumes": volumes}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks"}, "spec": spec}
        try:
            self._kubectl(("create", "-f", "-", f"--namespace={namespace}", "--dry-run=server"), json.dumps(pod))
        except RuntimeError as error:
            return f"this cluster takes no pod with a hostPath: {error}" if "hostPath" in str(error) else ""
        return ""

    def why_not_one_node(self) -> str:
        """Return why a pod may come to another node than the one before it; nothing where there is one for all."""
        open_nodes = [
            node["metadata"]["name"]
            for node in self.get("", "nodes")
            if not any(taint["effect"] != "PreferNoSchedule" for taint in node["spec"].get("taints", ()))
        ]
        return f"one node is needed, and this cluster has {len(open_nodes)}" if len(open_nodes) > 1 else ""

    def until(self, look: Callable[[], T | Literal[False] | None], what: str, seconds: float = 90.0) -> T:
        """Wait as ``waiting.until`` does, but look less often: each look is a run of kubectl."""
        return until(look, what, seconds, every=0.25)


def collect(cluster: Cluster, name: str) -> Path:
    """Keep logs, events and descriptions of our namespaces in a folder of this name; return the folder."""
    folder = FAILURES / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def keep(file: str, *arguments: str) -> str:
        try:
            text = cluster.kubectl(*arguments, timeout=30)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            text = f"{error}\n"
        (folder / file).write_text(text)
        return text

    keep("nodes.txt", "describe", "nodes")
    listed = keep("namespaces.txt", "get", "namespaces", f"--selector={contract.SESSIONS_LABEL}", "--output=name")
    namespaces = [line.removeprefix("namespace/") for line in listed.splitlines() if line.startswith("namespace/")]
    for namespace in (NAMESPACE, *namespaces):
        at = f"--namespace={namespace}"
        keep(f"{namespace}.pods.txt", "describe", "pods", at)
        keep(f"{namespace}.pods.yaml", "get", "pods", at, "--output=yaml")
        keep(f"{namespace}.events.yaml", "get", "events.events.k8s.io", at, "--output=yaml")
        pods = keep(f"{namespace}.list.txt", "get", "pods", at, "--output=name")
        for pod in pods.split():
            keep(f"{namespace}.{pod.removeprefix('pod/')}.log", "logs", pod, at, "--all-containers", "--timestamps")
    keep("registration.yaml", "get", "mutatingwebhookconfigurations", "--output=yaml")
    return folder
