"""A Lease that is given back."""

from __future__ import annotations

from typing import Any, cast

import pytest

from forewarn.mirror.api import Api
from forewarn.mirror.lease import Lease


class Stored:
    """An API server that has one Lease."""

    def __init__(self, holder: str) -> None:
        self.lease: dict[str, Any] = {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": holder}}
        self.put: list[dict[str, Any]] = []

    async def request(self, method: str, _: str, body: Any = None) -> dict[str, Any]:
        if method == "PUT":
            self.put.append(body)
        return self.lease


@pytest.mark.parametrize(("holder", "given_back"), [("us", 1), ("them", 0)])
async def test_the_lease_is_given_back_as_it_is_stored_and_only_while_it_is_ours(holder: str, given_back: int) -> None:
    stored = Stored(holder)
    lease = Lease(cast("Api", stored), "team", "mirror", "us", lambda: None, lambda: None)
    lease.held = True
    await lease.release()
    assert len(stored.put) == given_back
    for put in stored.put:
        assert (put["metadata"]["resourceVersion"], put["spec"]["holderIdentity"]) == ("7", "")
