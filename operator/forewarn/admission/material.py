"""The webhook's certificate as plain bytes, and how the process that serves it asks another to look at it.

The library that makes and reads certificates takes ten megabytes. A replica needs it for a moment when it starts and
once a year, so that moment is another process's: what is measured there is gone with it.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CERT, KEY, BUNDLE = "tls.crt", "tls.key", "ca.crt"
"""The Secret's keys (those of a kubernetes.io/tls Secret)."""


@dataclass(frozen=True, slots=True)
class Material:
    """A serving certificate, its key, and the bundle by which it is trusted; all PEM."""

    cert: str
    key: str
    bundle: str


@dataclass(frozen=True, slots=True)
class Renewal:
    """A good pair, why it was made anew (``None``: it was not), its end, and the authority (PEM) that signed it."""

    material: Material
    because: str | None
    ends_at: datetime.datetime
    authority: str

    def trusted_by(self, bundle: str) -> bool:
        """Whether a bundle (PEM) holds the authority that signed the pair."""
        return self.authority.strip() in bundle


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the DNS names by which the API server calls a Service's webhook, the one that it asks for first."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", f"{service}.{namespace}", service)


async def renewed(kept: Material | None, names: Sequence[str], now: datetime.datetime, trusted: str) -> Renewal:
    """Return what ``certificates.renew`` returns, from a process of its own. ``RuntimeError`` where that fails."""
    question = {
        "kept": None if kept is None else asdict(kept),
        "names": list(names),
        "now": now.isoformat(),
        "trusted": trusted,
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "forewarn.admission.certificates"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    answer, said = await process.communicate(json.dumps(question).encode())
    if process.returncode:
        raise RuntimeError(f"the certificate cannot be looked at: {said.decode(errors='replace').strip()[-300:]}")
    found = json.loads(answer)
    ends_at = datetime.datetime.fromisoformat(found["ends_at"])
    return Renewal(Material(**found["material"]), found["because"], ends_at, found["authority"])
