"""A mirror as a process of its own, pods that need no kubelet, and what the API server holds of them."""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from forewarn import contract
from tests.support.apiserver import ApiServer
from tests.support.processes import Process
from tests.support.waiting import until

KEYS = contract.Keys()


class MirrorProcess(Process):
    """``forewarn run mirror``; at the end of its block it is killed."""

    def __init__(self, kubeconfig: Path, log: Path, *flags: str, environ: Mapping[str, str] | None = None) -> None:
        argv = [sys.executable, "-m", "forewarn.cli", "run", "mirror", f"--kubeconfig={kubeconfig}", "--health-port=0"]
        super().__init__([*argv, *flags], log, environ)
        self.name = "the mirror"

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def port(self) -> int:
        """The port of its probes, once it serves them."""
        return int(self.until(lambda: re.findall(r"health_port\W+(\d+)", self.output()), "its probes")[-1])

    def get(self, path: str) -> tuple[int, str]:
        """Ask a probe; status 0 where nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self, seconds: float = 30.0) -> Self:
        """Wait until it is ready."""
        self.until(lambda: self.get("/readyz")[0] == 200, "/readyz", seconds)
        return self

    def metric(self, name: str) -> float:
        """Return a metric's value, summed over its labels; 0 where there is none."""
        rows = re.findall(rf"^{re.escape(name)}(?:\{{.*\}})? (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return sum(map(float, rows))


def at(seconds: float) -> str:
    """Return the instant so many seconds from now, as the controller writes it."""
    return contract.format_instant(datetime.now(UTC) + timedelta(seconds=seconds))


def warning(seconds: float = 900, risk: str = "0.33") -> dict[str, str | None]:
    """Return the three annotations of a warning."""
    return {
        KEYS.key(contract.WARNING_AT): at(seconds),
        KEYS.key(contract.WARNING_RISK): risk,
        KEYS.key(contract.WARNING_MESSAGE): "Your session may end at 11:30 AM.",
    }


NO_WARNING: dict[str, str | None] = {KEYS.key(name): None for name in contract.WARNING_NAMES}


def pod_body(name: str, annotations: Mapping[str, str | None] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a session's manifest: bound to a node that no kubelet runs, so that a delete waits for its grace."""
    items = [{"path": file, "fieldRef": {"fieldPath": field}} for file, field in KEYS.podinfo_items()]
    meta = spec.pop("metadata", {})
    mounts = [{"name": "podinfo", "mountPath": contract.MOUNT_PATH}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {})} | meta,
        "spec": {
            "nodeName": "nowhere",
            "terminationGracePeriodSeconds": 600,
            "containers": [{"name": "main", "image": "none", "volumeMounts": mounts}],
            "volumes": [{"name": "podinfo", "downwardAPI": {"items": items}}],
        }
        | spec,
    }


def _number(event: Mapping[str, Any]) -> int:
    return int(json.loads(event["metadata"]["annotations"].get("forewarn/story", "{}")).get("entry", 0))


class Sessions:
    """The pods of one namespace, and their Events."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.server, self.namespace = server, namespace

    def _path(self, kind: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    def ok(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Any:
        status, answer = self.server.request(method, path, body, content)
        assert status < 300, f"{method} {path}: {status} {answer}"
        return answer

    def create(self, body: Mapping[str, Any], *, running: bool = True) -> str:
        """Create a pod, say that it runs, and return its uid."""
        made = self.ok("POST", self._path("pods"), body)
        if running:
            self.status(made["metadata"]["name"], {"phase": "Running", "startTime": at(0)})
        return str(made["metadata"]["uid"])

    def status(self, name: str, status: Mapping[str, Any]) -> None:
        self.ok("PATCH", self._path("pods", name) + "/status", {"status": dict(status)}, "application/merge-patch+json")

    def annotate(self, name: str, annotations: Mapping[str, str | None]) -> None:
        body = {"metadata": {"annotations": dict(annotations)}}
        self.ok("PATCH", self._path("pods", name), body, "application/merge-patch+json")

    def delete(self, name: str, grace: int | None = None) -> None:
        query = "" if grace is None else f"?gracePeriodSeconds={grace}"
        self.ok("DELETE", self._path("pods", name) + query)

    def events(self, name: str | None = None, kind: str = "Pod") -> list[dict[str, Any]]:
        """Return our Events on an object (or all), by the number that they have."""
        answer = self.ok("GET", f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events?limit=5000")
        ours = [each for each in answer["items"] if each.get("reportingController") == contract.REPORTING_CONTROLLER]
        ours = [each for each in ours if each["regarding"]["kind"] == kind]
        ours = [each for each in ours if name is None or each["regarding"]["name"] == name]
        return sorted(ours, key=_number)

    def reasons(self, name: str) -> list[str]:
        return [event["reason"] for event in self.events(name)]

    def until(self, name: str, reasons: Sequence[str], seconds: float = 20.0) -> list[dict[str, Any]]:
        """Wait until a pod has exactly these Events, in this order."""
        wanted, found = list(reasons), list[str]()

        def look() -> bool:
            found[:] = self.reasons(name)
            return found == wanted

        until(look, lambda: f"{name}: {found}, not {wanted}", seconds)
        return self.events(name)
