"""Keeps the Secret, the registration's caBundle and the served certificate in step; the cluster's side of it.

One round reads the registration, then the Secret, and repairs what differs; whoever loses a race (409) reads again in
the next round. Reading the registration first matters: a bundle that is seen there was in the Secret before, so an old
Secret is never written over a newer bundle (the write carries the registration's resourceVersion).
"""

from __future__ import annotations

import base64
import binascii
import datetime
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.admissionregistration_v1 import MutatingWebhookConfiguration
from lightkube.resources.core_v1 import Secret
from lightkube.types import PatchType

from forewarn.admission.material import BUNDLE, CERT, KEY, Material, Renewal, renewed, service_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightkube import AsyncClient

log = logging.getLogger("forewarn.admission")

EVERY = 5.0
"""Seconds between two rounds; a wiped caBundle is back within that time."""

LOOK_AGAIN = datetime.timedelta(hours=1)
"""How long a certificate that was found good is taken to be."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the keeper looks after: the namespace, its Secret and Service, and the registration."""

    namespace: str
    secret: str
    service: str
    registration: str


class Served(Protocol):
    """The side that serves: it loads a certificate for new connections and tells whether it is trusted."""

    def load(self, renewal: Renewal) -> None:
        """Serve this certificate to every new connection from now on."""

    def trusted(self, is_trusted: bool, why: str) -> None:
        """Take note whether the registration trusts what is served."""


class Keeper:
    """The certificate's keeper in one replica. ``now`` is a clock of aware times."""

    def __init__(self, client: AsyncClient, names: Names, served: Served, now: Callable[[], datetime.datetime]) -> None:
        self._client, self._names, self._served, self._now = client, names, served, now
        self._dns = service_names(names.service, names.namespace)
        self._current: Renewal | None = None
        self._looked: tuple[Renewal, datetime.datetime] | None = None

    async def round(self) -> None:
        """Read, repair, and load what the registration trusts. Raises ``ApiError`` and transport errors."""
        names = self._names
        registration = await self._registration()
        bundle = _bundle(registration, names) if registration is not None else ""
        renewal = await self._secret(bundle)
        if renewal is None:
            return
        if registration is None or not _ours(registration, names):
            self._load(renewal)
            why = f"there is no MutatingWebhookConfiguration {names.registration}"
            self._judge("", why if registration is None else f"{names.registration} does not call {self._dns[0]}")
            return
        if bundle != renewal.material.bundle:
            await self._write_bundle(registration, renewal.material.bundle)
            # What is served now is in the bundle still. The new pair waits one round, until every API server has seen
            # the new bundle; at the start there is nothing to wait with.
            if self._current is None:
                self._load(renewal)
            bundle = renewal.material.bundle
        else:
            self._load(renewal)
        self._judge(bundle, f"the caBundle of {names.registration} does not trust the certificate")

    def _load(self, renewal: Renewal) -> None:
        if self._current is None or self._current.material.cert != renewal.material.cert:
            self._served.load(renewal)
            log.info(
                "serving a certificate",
                extra={"fields": {"until": renewal.ends_at.isoformat(), "for": self._dns[0]}},
            )
        self._current = renewal

    def _judge(self, bundle: str, why: str) -> None:
        is_trusted = self._current is not None and self._current.trusted_by(bundle)
        self._served.trusted(is_trusted, "" if is_trusted else why)

    async def _registration(self) -> MutatingWebhookConfiguration | None:
        try:
            return await self._client.get(MutatingWebhookConfiguration, self._names.registration)
        except ApiError as error:
            if error.status.code != 404:
                raise
            return None

    async def _secret(self, registered: str) -> Renewal | None:
        """Return the Secret's certificate, made or renewed first where that is due; ``None`` after a lost race."""
        names = self._names
        try:
            secret = await self._client.get(Secret, names.secret, namespace=names.namespace)
        except ApiError as error:
            if error.status.code != 404:
                raise
            secret = None
        kept, now = _material(secret), self._now()
        if self._looked is not None and self._looked[0].material == kept and now - self._looked[1] < LOOK_AGAIN:
            return self._looked[0]
        bundles = (kept.bundle if kept else "", registered, self._current.material.bundle if self._current else "")
        renewal = await renewed(kept, self._dns, now, "\n".join(bundles))
        if renewal.because is not None and not await self._store(secret, renewal):
            return None
        self._looked = (renewal, now)
        return renewal

    async def _store(self, secret: Secret | None, renewal: Renewal) -> bool:
        """Write a new certificate to the Secret; ``False`` where another replica was quicker."""
        names, made = self._names, renewal.material
        data = {name: _encoded(text) for name, text in ((CERT, made.cert), (KEY, made.key), (BUNDLE, made.bundle))}
        try:
            if secret is None:
                body = Secret(metadata=ObjectMeta(name=names.secret, namespace=names.namespace), data=data)
                await self._client.create(body)
            else:
                # With the resourceVersion that was read: of two replicas that renew at once, one gets 409.
                secret.data = {**(secret.data or {}), **data}
                await self._client.replace(secret)
        except ApiError as error:
            if error.status.code != 409:
                raise
            log.info("another replica made the certificate", extra={"fields": {"secret": names.secret}})
            return False
        log.info("made a certificate", extra={"fields": {"secret": names.secret, "because": renewal.because}})
        return True

    async def _write_bundle(self, registration: MutatingWebhookConfiguration, bundle: str) -> None:
        patch: dict[str, Any] = {
            # With the resourceVersion that was read, so that an older bundle never replaces a newer one.
            "metadata": {"resourceVersion": registration.metadata.resourceVersion if registration.metadata else None},
            "webhooks": [
                {"name": webhook.name, "clientConfig": {"caBundle": _encoded(bundle)}}
                for webhook in _ours(registration, self._names)
            ],
        }
        await self._client.patch(
            MutatingWebhookConfiguration, self._names.registration, patch, patch_type=PatchType.STRATEGIC
        )
        log.info("wrote the caBundle", extra={"fields": {"registration": self._names.registration}})


def _ours(registration: MutatingWebhookConfiguration, names: Names) -> list[Any]:
    return [
        webhook
        for webhook in registration.webhooks or []
        if (service := webhook.clientConfig.service) is not None
        and (service.name, service.namespace) == (names.service, names.namespace)
    ]


def _bundle(registration: MutatingWebhookConfiguration, names: Names) -> str:
    """Return the caBundle that all webhooks of ours share; empty where they differ or have none."""
    found = {webhook.clientConfig.caBundle or "" for webhook in _ours(registration, names)}
    return _decoded(found.pop()) if len(found) == 1 else ""


def _material(secret: Secret | None) -> Material | None:
    data = (secret.data if secret is not None else None) or {}
    try:
        return Material(*(_decoded(data[name]) for name in (CERT, KEY, BUNDLE)))
    except (KeyError, binascii.Error):
        return None


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode(errors="replace")
