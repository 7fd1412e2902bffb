"""What the mirror's measurements share: a process's memory and CPU, percentiles, many sessions, many writes."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from forewarn import kube
from forewarn.mirror.api import MERGE_PATCH
from tests.integration.mirror.load import Cluster, each
from tests.integration.mirror.support import KEYS, at, pod_body
from tests.support.apiserver import ApiServer

TICKS = os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Return a process's resident memory in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise RuntimeError("no VmRSS")


def cpu(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least ``share`` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


async def sessions(made: Cluster, names: Sequence[str]) -> None:
    """Create sessions as the controller leaves them: admitted, guaranteed, on a node."""
    annotations = {
        KEYS.key("guaranteed-until"): at(7200),
        KEYS.key("guarantee-status"): "guaranteed",
        KEYS.key("booking-reference"): "res-4812",
        KEYS.key("reservation-kind"): "booking",
        KEYS.key("reservation-start"): at(-600),
        KEYS.key("reservation-end"): at(7200),
        KEYS.key("gpu-class-name"): "medium",
        KEYS.key("admitted-at"): at(-600),
        KEYS.key("pod-runtime-limit-seconds"): "21600",
    }
    labels = {"dsmlp/course": "CSE_1", "dsmlp/user": "student"}
    body = {"metadata": {"labels": labels, "annotations": annotations}}

    async def one(name: str) -> None:
        meta = {"metadata": {"name": name, **body["metadata"]}, "activeDeadlineSeconds": 21600}
        await made.create(pod_body(name, **meta), running=False)

    await each(names, one, 32)
    await asyncio.sleep(0)


METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Controller:
    """Annotates pods over a few connections that stay open, with little CPU: the mirror shares the machine with it."""

    def __init__(
        self, namespace: str, token: str, idle: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    ) -> None:
        self._namespace, self._token, self._idle = namespace, token, idle

    async def annotate(self, name: str, annotations: Mapping[str, str | None]) -> None:
        """Patch a pod, and return when it is answered."""
        body = orjson.dumps({"metadata": {"annotations": dict(annotations)}})
        head = (
            f"PATCH /api/v1/namespaces/{self._namespace}/pods/{name} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: {MERGE_PATCH}\r\nContent-Length: {len(body)}\r\n"
            f"Accept: {METADATA}\r\nAuthorization: Bearer {self._token}\r\n\r\n"
        )
        connection = await self._idle.get()
        reader, writer = connection
        writer.write(head.encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        if not answer.startswith(b"http/1.1 200 "):
            raise AssertionError(f"pod {name}: {answer!r}")
        _, known, rest = answer.partition(b"content-length:")
        # JSON holds no bare carriage return, so this is the end of the last chunk.
        await (reader.readexactly(int(rest.split(b"\r\n")[0])) if known else reader.readuntil(b"\r\n0\r\n\r\n"))
        self._idle.put_nowait(connection)


@asynccontextmanager
async def controller(
    server: ApiServer, kubeconfig: Path, namespace: str, connections: int = 16
) -> AsyncIterator[Controller]:
    """Connect a controller with the kubeconfig's token, and disconnect it after the block."""
    user = kube.connect(str(kubeconfig)).user
    assert user is not None
    assert user.token is not None
    context = ssl.create_default_context(cadata=server.ca.decode())
    idle: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    opened = [
        await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname="localhost")
        for _ in range(connections)
    ]
    for connection in opened:
        idle.put_nowait(connection)
    try:
        yield Controller(namespace, user.token, idle)
    finally:
        for _, writer in opened:
            writer.close()


def kubeconfig_with_token(server: ApiServer) -> Path:
    """Return the kubeconfig of an all-powerful ServiceAccount: a token is checked once, as of who runs in the cluster.

    A client certificate is verified at every request.
    """
    kubeconfig = server.kubeconfig_of_account("default", "bench", 36000)
    server.kubectl(
        *("create", "clusterrolebinding", "bench", "--clusterrole=cluster-admin", "--serviceaccount=default:bench")
    )
    return kubeconfig
