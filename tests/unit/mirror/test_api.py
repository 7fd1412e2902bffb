"""How the mirror reaches the API server: through the proxy that the environment names, or past it."""

from __future__ import annotations

import base64
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from lightkube.config.kubeconfig import PROXY_CONF, SingleConfig
from lightkube.config.models import Cluster, User, UserExec

from forewarn.mirror.api import FAILURES, Api, LoginError, Refusal, new_session, refusal

SERVER = "http://cluster.invalid:6443"


class Proxy:
    """A forward proxy that answers everything itself: what it was asked for, with which login for whom."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.logins: list[str | None] = []
        self.port = 0

    async def answer(self, request: web.BaseRequest) -> web.Response:
        self.asked.append((str(request.url), request.headers.get("Proxy-Authorization")))
        self.logins.append(request.headers.get("Authorization"))
        return web.json_response({"from": "the proxy"})


@pytest.fixture
async def proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Proxy]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    made = Proxy()
    runner = web.ServerRunner(web.Server(made.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.port = runner.addresses[0][1]
    yield made
    await runner.cleanup()


def reached_at(server: str) -> SingleConfig:
    return PROXY_CONF._replace(cluster=Cluster(server=server), user=User())


async def ask(config: SingleConfig) -> object:
    async with new_session(config) as session:
        return await Api(config, session).request("GET", "/version")


async def test_the_environments_proxy_is_used(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
    assert await ask(reached_at(SERVER)) == {"from": "the proxy"}
    assert proxy.asked == [(f"{SERVER}/version", None)]


async def test_the_login_in_a_proxys_address_is_given_to_it(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:secret@127.0.0.1:{proxy.port}")
    await ask(reached_at(SERVER))
    assert proxy.asked == [(f"{SERVER}/version", "Basic " + base64.b64encode(b"me:secret").decode())]


async def test_a_server_that_needs_no_proxy_is_reached_without(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    own = f"http://127.0.0.1:{proxy.port}"
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1,.svc")
    await ask(reached_at(own))
    assert proxy.asked == [(f"{own}/version", None)]


async def test_a_netrc_does_not_speak_for_the_kubeconfig(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    await ask(reached_at(f"http://127.0.0.1:{proxy.port}"))
    assert proxy.logins == [None]


# ── a login that fails now ───────────────────────────────────────────────────────────────────────────────────────────
def program(code: str) -> User:
    return User(exec=UserExec("client.authentication.k8s.io/v1beta1", sys.executable, args=["-c", code]))


@pytest.mark.parametrize(
    ("user", "why"),
    [
        (User(token_file="/nonexistent/token"), "not found"),
        (User(token_file="/dev/null"), "the token is empty"),
        (program("raise SystemExit(1)"), "returned 1"),
        (program("print('no JSON')"), "Expecting value"),
        (program("print('{}')"), "status"),
        (program("print('[]')"), "list indices"),
        (User(exec=UserExec("client.authentication.k8s.io/v1beta1", "/nonexistent/program")), "No such file"),
    ],
)
async def test_a_login_that_fails_is_a_failure_like_others(proxy: Proxy, user: User, why: str) -> None:
    with pytest.raises(LoginError, match="cannot log in") as raised:
        await ask(reached_at(f"http://127.0.0.1:{proxy.port}")._replace(user=user))
    assert why in str(raised.value)
    assert isinstance(raised.value, FAILURES)
    assert proxy.asked == []


async def test_a_login_that_failed_is_tried_again(proxy: Proxy, tmp_path: Path) -> None:
    token = tmp_path / "token"
    config = reached_at(f"http://127.0.0.1:{proxy.port}")._replace(user=User(token_file=str(token)))
    async with new_session(config) as session:
        with pytest.raises(LoginError):
            await Api(config, session).request("GET", "/version")
        token.write_text("secret\n")
        await Api(config, session).request("GET", "/version")
    assert proxy.logins == ["Bearer secret"]


@pytest.mark.parametrize("text", ["<html>Sign in</html>", "", "[1]"])
async def test_an_answer_that_is_no_object_is_a_refusal(text: str) -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(text=text)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    with pytest.raises(Refusal, match="no JSON object"):
        await ask(reached_at(f"http://127.0.0.1:{runner.addresses[0][1]}"))
    await runner.cleanup()


@pytest.mark.parametrize(
    ("text", "seconds"), [("7", 7.0), ("0", 0.0), (None, None), ("inf", None), ("Mon, 30 Nov 2026 00:00:00 GMT", None)]
)
def test_a_retry_after_is_read_as_whole_seconds(text: str | None, seconds: float | None) -> None:
    assert refusal(429, b"{}", text).retry_after == seconds
