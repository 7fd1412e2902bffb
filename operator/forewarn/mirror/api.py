"""The API server over aiohttp, which kopf brings anyway: sessions with the kubeconfig's login, requests, refusals."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx2
import orjson
from aiohttp import hdrs
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.core.exceptions import ConfigError

from forewarn.proxy import proxy_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from aiohttp.client_middlewares import ClientHandlerType
    from lightkube.config.kubeconfig import SingleConfig

TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)
CHUNK = 500
"""Objects in one page of a list."""

MERGE_PATCH = "application/merge-patch+json"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

FAILURES = (aiohttp.ClientError, TimeoutError, OSError, ssl.SSLError)
"""What a request raises that did not reach the API server, or whose answer did not arrive."""


class Refusal(Exception):  # noqa: N818  (what the API server says is its name)
    """An answer of 400 or more: ``reason`` and ``causes`` are the Status', ``retry_after`` is in seconds."""

    def __init__(
        self, code: int, reason: str, message: str, causes: tuple[str, ...] = (), retry_after: float | None = None
    ) -> None:
        super().__init__(code, reason, message)
        self.code, self.reason, self.message = code, reason, message
        self.causes, self.retry_after = causes, retry_after

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"


class LoginError(aiohttp.ClientError):
    """The kubeconfig's user cannot log in now: its token file or its program fails."""


class Login:
    """The Authorization header of the kubeconfig's user, renewed where the API server does not take it any more.

    It drives lightkube's own login (token, token file, exec plugin, password), so that there is one reading of a user.
    Where that fails now: ``LoginError``, which is one of ``FAILURES``.
    """

    def __init__(self, config: SingleConfig) -> None:
        self._auth = user_auth(config.user)
        self._header: str | None = None
        self._flow: Any = None
        self._lock = asyncio.Lock()

    async def header(self, refused: str | None = None) -> str | None:
        """Return the header; ``refused`` is one that was just answered with 401."""
        if self._auth is None:
            return None
        async with self._lock:
            if self._header is None or self._header == refused:
                try:
                    self._header = await self._renew(again=refused is not None)
                # What a token file, a program and its output may be.
                except (ConfigError, OSError, ValueError, LookupError, TypeError) as error:
                    raise LoginError(f"the kubeconfig's user cannot log in: {error}") from error
                if self._header is not None and not self._header.partition(" ")[2]:
                    # Sent, it would be nobody's login, which is refused as somebody's without the right.
                    self._header = None
                    raise LoginError("the kubeconfig's user cannot log in: the token is empty")
            return self._header

    async def _renew(self, again: bool) -> str | None:
        request = httpx2.Request("GET", "https://kubernetes.invalid/")
        assert self._auth is not None  # noqa: S101  (narrows the type; the caller asked)
        flow = self._auth.async_auth_flow(request)
        sent = await anext(flow)
        header = sent.headers.get("Authorization")
        if again and header == self._header:
            try:
                sent = await flow.asend(httpx2.Response(401, request=sent))
                header = sent.headers.get("Authorization")
            except StopAsyncIteration:
                pass
        await flow.aclose()
        return header

    async def __call__(self, request: aiohttp.ClientRequest, handler: ClientHandlerType) -> aiohttp.ClientResponse:
        """Send a request with the header, once more with a new one after a 401 (an aiohttp middleware)."""
        header = await self.header()
        if header is None:
            return await handler(request)
        request.headers[hdrs.AUTHORIZATION] = header
        response = await handler(request)
        if response.status != 401:
            return response
        renewed = await self.header(refused=header)
        if renewed is None or renewed == header:
            return response
        response.release()
        request.headers[hdrs.AUTHORIZATION] = renewed
        return await handler(request)


def new_session(config: SingleConfig, *traces: aiohttp.TraceConfig) -> aiohttp.ClientSession:
    """Return a session for the running loop; each trace costs some time at every request."""
    user = config.user
    context = verify_cluster(config.cluster, user, config.abs_file) if user is not None else None
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=context if context is not None else True),
        timeout=TIMEOUT,
        middlewares=(Login(config),),
        trace_configs=list(traces),
        headers={hdrs.USER_AGENT: "forewarn-mirror"},
        # aiohttp would look for a proxy and a netrc at every request, each in a thread.
        proxy=proxy_of(config.cluster.server, os.environ),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


class Api:
    """Requests to the API server, parsed; raises ``Refusal`` for an answer of 400 or more.

    ``answered`` gets each answer's Date header and the monotonic clock at the request and at the answer.
    """

    def __init__(
        self,
        config: SingleConfig,
        session: aiohttp.ClientSession,
        answered: Callable[[str | None, float, float], None] = lambda *_: None,
    ) -> None:
        self._server = config.cluster.server.rstrip("/")
        self._session, self._answered = session, answered

    async def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content: str = "application/json",
        accept: str = "application/json",
    ) -> Any:
        """Send one request and return the answer's JSON object."""
        data = None if body is None else orjson.dumps(body)
        headers = {hdrs.ACCEPT: accept} | ({hdrs.CONTENT_TYPE: content} if data else {})
        asked = time.monotonic()
        async with self._session.request(
            method, self._server + path, params=params, data=data, headers=headers
        ) as response:
            self._answered(response.headers.get(hdrs.DATE), asked, time.monotonic())
            raw = await response.read()
            if response.status >= 400:
                raise refusal(response.status, raw, response.headers.get(hdrs.RETRY_AFTER))
            return _object(raw)

    async def list(
        self, path: str, params: Mapping[str, str] | None = None, accept: str = "application/json"
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the objects of a list, page by page; a page whose token has expired starts a full list anew."""
        query = dict(params or {}) | {"limit": str(CHUNK)}
        while True:
            try:
                page = await self.request("GET", path, query, accept=accept)
            except Refusal as error:
                if error.code != 410 or "continue" not in query:
                    raise
                query = dict(params or {})
                continue
            for item in page.get("items") or []:
                yield item
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return
            query["continue"] = token


def _object(raw: bytes) -> dict[str, Any]:
    """Read an answer; one that is no JSON object is somebody's who stands between us and the API server."""
    try:
        answer = orjson.loads(raw)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        shown = raw[:100].decode(errors="replace")
        raise Refusal(502, "NotTheApiServer", f"the answer is no JSON object: {shown!r}")
    return answer


def refusal(code: int, raw: bytes, retry_after: str | None) -> Refusal:
    """Read an answer of 400 or more; a body that is no Status is its message."""
    try:
        status = orjson.loads(raw)
        details = status.get("details") or {}
        causes = tuple(str(cause.get("reason", "")) for cause in details.get("causes") or [])
        wait = _seconds(retry_after)
        if wait is None and details.get("retryAfterSeconds"):
            wait = float(details["retryAfterSeconds"])
        return Refusal(code, str(status.get("reason", "")), str(status.get("message", "")), causes, wait)
    except (ValueError, TypeError, AttributeError):
        return Refusal(code, "", raw[:200].decode(errors="replace"), (), _seconds(retry_after))


def _seconds(text: str | None) -> float | None:
    """Read a Retry-After as the API server writes it: whole seconds."""
    return float(text) if text and re.fullmatch(r"\d{1,6}", text, re.ASCII) else None
