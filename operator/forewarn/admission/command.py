"""``forewarn run admission``: the mutating webhook.

What the chart must give it (each is a flag, or the variable FOREWARN_… of the same name):

- ``--namespace``: its own namespace (from the downward API, or the release's); ``--service``, ``--registration`` and
  ``--tls-secret``: the names of its Service, its MutatingWebhookConfiguration and its Secret, where they are not the
  defaults ``forewarn-admission``, ``forewarn-admission`` and ``forewarn-admission-tls``.
- ``--annotation-prefix``, ``--pod-selector`` (equal labels), ``--whole-map``, ``--log-format``: as for the mirror.
- The Secret, made by the chart with no data (type Opaque), so that RBAC can name it: Role ``get, update`` on that one
  Secret; ClusterRole ``get, patch`` on that one registration. Where the chart does not make it, ``create`` on secrets
  is needed beside.
- The registration: ``clientConfig.service`` with path /mutate and port 443 → 8443, no ``caBundle`` (it is written, and
  kept there, by the replicas); its other fields are in docs/admission.md.
- Ports 8443 (TLS) and 8080 (/healthz, /readyz, /metrics); ``terminationGracePeriodSeconds`` above ``--drain`` + 5.
"""

from __future__ import annotations

import asyncio
import datetime
import gc
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from forewarn import logs, settings
from forewarn.admission import health, server
from forewarn.admission.app import Webhook
from forewarn.admission.inject import InjectSettings
from forewarn.arguments import Parser
from forewarn.errors import UserError

if TYPE_CHECKING:
    import ssl

    from lightkube import AsyncClient

    from forewarn.admission.material import Renewal
    from forewarn.admission.review import Answer

log = logging.getLogger("forewarn.admission")

KUBE_SYSTEM = "kube-system"
FILES_EVERY = 10.0
"""Seconds between two looks at the files of ``--tls-cert`` and ``--tls-key``."""


def main(argv: list[str]) -> int:
    """Run the webhook until SIGTERM."""
    parser = Parser("forewarn run admission", "The mutating webhook that gives a session its podinfo and grace.")
    settings.add_flags(parser, settings.ADMISSION)
    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster (default: $KUBECONFIG, else the pod's own)")
    arguments = parser.parse_args(argv)
    values = settings.resolve(settings.ADMISSION, vars(arguments), os.environ)
    if bool(values["tls_cert"]) != bool(values["tls_key"]):
        raise UserError("--tls-cert", "it goes with --tls-key", "give both, or neither")
    logs.configure(values["log_format"])
    # What is loaded by now stays: a collection in the middle of a request need not look at it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(5000, 20, 50)
    return uvloop.run(_run(values, arguments.kubeconfig))


async def _run(values: dict[str, Any], kubeconfig: str | None) -> int:
    metrics, readiness, context = health.Metrics(), health.Readiness(), server.tls_context()
    inject = InjectSettings(values["annotation_prefix"], values["whole_map"], values["pod_selector"])
    app = Webhook(inject, (KUBE_SYSTEM, values["namespace"]), _watcher(metrics))
    certificate: asyncio.Task[None]
    if values["tls_cert"]:
        server.load_files(context, values["tls_cert"], values["tls_key"])
        readiness.set()
        certificate = asyncio.create_task(_follow_files(context, values["tls_cert"], values["tls_key"]))
    else:
        # Imported late: with files of one's own none of it is needed, nor is a cluster.
        from forewarn import kube

        client = kube.async_client(kube.connect(kubeconfig))
        certificate = asyncio.create_task(_keep(values, client, _Served(context, metrics, readiness)))
    listener = server.listen("--port", values["host"], values["port"])
    health_listener = server.listen("--health-port", values["host"], values["health_port"])
    with listener, health.serving(health_listener, metrics, readiness) as health_port:
        ports = {"port": listener.getsockname()[1], "health_port": health_port}
        log.info("listening", extra={"fields": ports})
        serving = asyncio.create_task(server.serve(app, context, listener, readiness, values["drain"]))
        await asyncio.wait({serving, certificate}, return_when=asyncio.FIRST_COMPLETED)
        if certificate.done():
            serving.cancel()
            certificate.result()
        certificate.cancel()
        await serving
    return 0


def _watcher(metrics: health.Metrics) -> Any:
    def seen(answer: Answer, seconds: float) -> None:
        metrics.seen(answer, seconds)
        if answer.error is not None:
            log.error(
                "a decision failed; the pod is left as it is",
                exc_info=answer.error,
                extra={"fields": {"namespace": answer.namespace}},
            )

    return seen


class _Served:
    """The keeper's hold on the running server."""

    def __init__(self, context: ssl.SSLContext, metrics: health.Metrics, readiness: health.Readiness) -> None:
        self._context, self._metrics, self._readiness = context, metrics, readiness

    def load(self, renewal: Renewal) -> None:
        server.load_material(self._context, renewal.material)
        self._metrics.certificate_ends.set(renewal.ends_at.timestamp())

    def trusted(self, is_trusted: bool, why: str) -> None:
        if self._readiness.why_not != "stopping":
            self._readiness.set("" if is_trusted else why)


async def _keep(values: dict[str, Any], client: AsyncClient, served: _Served) -> None:
    """Keep certificate, Secret and registration in step, for ever; a cluster that fails is tried again."""
    from forewarn import kube
    from forewarn.admission import keeper

    names = keeper.Names(values["namespace"], values["tls_secret"], values["service"], values["registration"])
    keeping = keeper.Keeper(client, names, served, lambda: datetime.datetime.now(datetime.UTC))
    said = ""
    while True:
        try:
            await keeping.round()
        except kube.FAILURES as error:
            problem = str(kube.explain(error, f"keep the certificate in {names.namespace}/{names.secret}"))
        except RuntimeError as error:
            problem = str(error)
        else:
            problem = ""
        if problem and problem != said:
            log.warning(problem)
        said = problem
        await asyncio.sleep(keeper.EVERY if not said else 1.0)


async def _follow_files(context: ssl.SSLContext, cert: str, key: str) -> None:
    """Load the certificate again whenever its files change; a pair that does not fit yet is tried again."""
    loaded = _stamps(cert, key)
    while True:
        await asyncio.sleep(FILES_EVERY)
        if (found := _stamps(cert, key)) == loaded or not found:
            continue
        try:
            server.load_files(context, cert, key)
        except UserError as error:
            log.warning(str(error))
            continue
        loaded = found
        log.info("loaded the certificate again", extra={"fields": {"file": cert}})


def _stamps(*paths: str) -> tuple[tuple[int, int], ...]:
    try:
        return tuple((status.st_mtime_ns, status.st_ino) for status in (Path(path).stat() for path in paths))
    except OSError:
        return ()
