"""The webhook as an ASGI application: reads one body, answers it, counts it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from forewarn.admission.review import LARGEST, REFUSED, Answer, answer, refuse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, MutableMapping

    from forewarn.admission.inject import InjectSettings

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PATH = "/mutate"


class Webhook:
    """The ASGI application. ``seen`` is told each answer and its seconds; ``never`` are namespaces to leave alone.

    While ``draining``, every answer asks the client to close its connection: the API server then opens its next one
    to a replica that stays.
    """

    def __init__(self, settings: InjectSettings, never: Collection[str], seen: Callable[[Answer, float], None]) -> None:
        self._settings, self._never, self._seen = settings, frozenset(never), seen
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["type"] != "http":
            return
        body = await _read(scope, receive)
        # The clock starts once the body is here: how fast the client sends is not ours.
        started = time.perf_counter()
        if scope["path"] != PATH:
            result = refuse(404, f"only {PATH} is served here")
        elif scope["method"] != "POST":
            result = refuse(405, "only POST is allowed")
        elif body is None:
            result = refuse(413, f"a body of at most {LARGEST} bytes is allowed")
        else:
            result = answer(body, self._settings, self._never)
        headers = [(b"content-type", result.content_type), (b"content-length", b"%d" % len(result.body))]
        if result.status == 405:
            headers.append((b"allow", b"POST"))
        # What sends something else than reviews gets no connection to keep.
        if self.draining or result.outcome == REFUSED:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": result.status, "headers": headers})
        await send({"type": "http.response.body", "body": result.body})
        self._seen(result, time.perf_counter() - started)


async def _read(scope: Scope, receive: Receive) -> bytes | None:
    """Return the request's body; ``None`` where it is too large (it is read to its end, so that the answer arrives)."""
    kept, size, more = list[bytes](), 0, True
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    too_large = declared.isdigit() and (len(declared) > 10 or int(declared) > LARGEST)
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        too_large = too_large or size > LARGEST
        if too_large:
            kept.clear()
            if size > 8 * LARGEST:
                break
        else:
            kept.append(part)
    if too_large:
        return None
    return kept[0] if len(kept) == 1 else b"".join(kept)
