"""The proxy to an API server is the one that kubectl would take."""

from __future__ import annotations

import pytest

from forewarn.errors import UserError
from forewarn.proxy import proxy_of

PROXY = "http://proxy.example:3128"
SERVER = "https://api.cluster.example:6443"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"HTTPS_PROXY": PROXY}, PROXY),
        ({"https_proxy": PROXY}, PROXY),
        ({"HTTPS_PROXY": ""}, None),
        ({"HTTP_PROXY": PROXY}, None),
        ({"ALL_PROXY": PROXY}, None),
        ({"HTTPS_PROXY": "proxy.example:3128"}, PROXY),
        ({"HTTPS_PROXY": "http://me:secret@proxy.example:3128"}, "http://me:secret@proxy.example:3128"),
    ],
)
def test_which_variable_names_it(environ: dict[str, str], expected: str | None) -> None:
    assert proxy_of(SERVER, environ) == expected


@pytest.mark.parametrize(
    ("server", "exceptions", "direct"),
    [
        (SERVER, "*", True),
        (SERVER, "cluster.example", True),
        (SERVER, ".cluster.example", True),
        (SERVER, "*.cluster.example", True),
        (SERVER, "api.cluster.example", True),
        (SERVER, ".api.cluster.example", False),
        (SERVER, "luster.example", False),
        (SERVER, "other.example, API.Cluster.Example", True),
        (SERVER, "api.cluster.example:6443", True),
        (SERVER, "api.cluster.example:443", False),
        (SERVER, "10.0.0.0/8", False),
        ("https://10.96.0.1:443", "10.0.0.0/8,.svc", True),
        ("https://10.96.0.1:443", "10.96.0.1", True),
        ("https://10.96.0.1:443", "10.96.0.1:443", True),
        ("https://10.96.0.1:443", "10.96.0.1:6443", False),
        ("https://10.96.0.1:443", "192.168.0.0/16", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "fd01::/16", False),
        ("https://kubernetes.default.svc", ".svc", True),
        ("https://127.0.0.1:6443", "", True),
        ("https://localhost:6443", "", True),
        ("https://[::1]:6443", "", True),
    ],
)
def test_which_servers_are_reached_without(server: str, exceptions: str, direct: bool) -> None:
    assert (proxy_of(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}) is None) == direct


@pytest.mark.parametrize(
    "proxy", ["socks5://proxy.example:1080", "foo://bar", "http://", "http://proxy:port", "http://[::1"]
)
def test_a_proxy_that_cannot_be_used_is_named_with_its_variable(proxy: str) -> None:
    with pytest.raises(UserError) as raised:
        proxy_of(SERVER, {"HTTPS_PROXY": proxy})
    assert str(raised.value).startswith(f"HTTPS_PROXY: {proxy!r} is no proxy that can be used; allowed: http[s]://")
