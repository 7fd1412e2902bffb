"""Which of several mirrors writes: a coordination.k8s.io/v1 Lease, taken, renewed, released."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from typing import TYPE_CHECKING, Any

from forewarn.contract import UTC, format_instant
from forewarn.mirror.api import FAILURES, Api, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

DURATION_SECONDS = 8
"""How long a holder that says nothing holds it. A standby takes over this long after the last renewal, plus a look."""
RENEW_SECONDS = 2.0
LOOK_SECONDS = 0.4
"""How often a standby looks: a released Lease is taken within it."""
SAY_SECONDS = 10.0
GIVE_UP_SECONDS = 6.0
"""A holder that could not renew for so long stops writing, before another may start."""


class Lease:
    """Holds a Lease or waits for it; ``gained`` and ``lost`` are called as that changes.

    As client-go does, a standby judges by how long it has seen no change, on its own monotonic clock, so that no two
    clocks are compared.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        gained: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        self._api, self._namespace, self._name, self._identity = api, namespace, name, identity
        self._gained, self._lost = gained, lost
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._seen: tuple[str, float] = ("", 0.0)
        self._released = False
        self.held = False

    async def run(self) -> None:
        """Hold or wait until cancelled."""
        loop = asyncio.get_running_loop()
        renewed, said = loop.time(), float("-inf")
        while not self._released:
            wait = LOOK_SECONDS
            try:
                async with asyncio.timeout(max(GIVE_UP_SECONDS - (loop.time() - renewed), LOOK_SECONDS)):
                    holds = await self._round()
                # As a look of a standby counts too, each of them gets the whole time.
                renewed = loop.time()
                wait = RENEW_SECONDS if holds else LOOK_SECONDS
                said = float("-inf")
            except (Refusal, *FAILURES) as error:
                if loop.time() - said > SAY_SECONDS:
                    said = loop.time()
                    log.warning("the lease cannot be %s: %s", "renewed" if self.held else "taken", error)
                holds = self.held and loop.time() - renewed < GIVE_UP_SECONDS
            if holds and not self.held:
                self.held = True
                log.info("the lease is ours", extra={"fields": {"lease": f"{self._namespace}/{self._name}"}})
                self._gained()
            elif self.held and not holds:
                self.held = False
                log.warning("the lease is lost", extra={"fields": {"lease": f"{self._namespace}/{self._name}"}})
                self._lost()
            await asyncio.sleep(wait)

    async def release(self) -> None:
        """Give the Lease back, so that a standby need not wait for it to run out; it is never taken again."""
        self._released = True
        if not self.held:
            return
        self.held = False
        path = f"{self._path}/{self._name}"
        try:
            # A renewal may have been on its way, so the version that we know need not be the newest.
            lease = await self._api.request("GET", path)
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                await self._api.request("PUT", path, body=lease)
        except (Refusal, *FAILURES) as error:
            log.warning("the lease cannot be released: %s", error)

    async def _round(self) -> bool:
        """Take or renew the Lease if it is ours, free or run out; return whether it is ours."""
        try:
            lease = await self._api.request("GET", f"{self._path}/{self._name}")
        except Refusal as error:
            if error.code != 404:
                raise
            body = {"metadata": {"name": self._name, "namespace": self._namespace}, "spec": self._spec({})}
            await self._api.request("POST", self._path, body=body)
            return not self._released
        spec = lease.get("spec") or {}
        if not self._may_take(spec, str(lease["metadata"]["resourceVersion"])):
            return False
        if self._released:
            return False
        lease["spec"] = self._spec(spec)
        try:
            await self._api.request("PUT", f"{self._path}/{self._name}", body=lease)
        except Refusal as error:
            if error.code != 409:
                raise
            # Another took it in the same moment; the next look tells who.
            return False
        # It may have been given back while this was on its way.
        return not self._released

    def _may_take(self, spec: dict[str, Any], version: str) -> bool:
        now = asyncio.get_running_loop().time()
        holder = spec.get("holderIdentity") or ""
        if version != self._seen[0]:
            self._seen = version, now
        if holder in ("", self._identity):
            return True
        return now - self._seen[1] > float(spec.get("leaseDurationSeconds") or DURATION_SECONDS)

    def _spec(self, spec: dict[str, Any]) -> dict[str, Any]:
        now = format_instant(datetime.now(UTC), "microseconds")
        taken = spec.get("holderIdentity") != self._identity
        return spec | {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": DURATION_SECONDS,
            "renewTime": now,
            "acquireTime": now if taken else spec.get("acquireTime") or now,
            "leaseTransitions": (spec.get("leaseTransitions") or 0) + (1 if taken and spec else 0),
        }
