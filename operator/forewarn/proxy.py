"""Which proxy stands between us and an API server, as kubectl reads the environment. Pure."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMES = ("http", "https")


def proxy_of(server: str, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy for an API server's address, ``None`` for a direct connection.

    From ``HTTPS_PROXY`` (``HTTP_PROXY`` for a plain http server) and ``NO_PROXY``, either in small letters too. As Go:
    a proxy without a scheme is an http one; ``NO_PROXY`` holds host names (with all below them), addresses, networks
    and ``*``; loopback is never behind a proxy. Raises ``UserError`` for a proxy that cannot be used.
    """
    address = urlsplit(server)
    name = "HTTP_PROXY" if address.scheme == "http" else "HTTPS_PROXY"
    proxy = _value(environ, name)
    if not proxy or _direct(address.hostname or "", address.port, _value(environ, "NO_PROXY")):
        return None
    url = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        shown = proxy.rpartition("@")[2]  # before it stands a password
        raise UserError(name, f"{shown!r} is no proxy that can be used", "allowed: http[s]://[USER:PASSWORD@]HOST:PORT")
    return url


def _value(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.lower()) or "").strip()


def _direct(host: str, port: int | None, exceptions: str) -> bool:
    try:
        own = ipaddress.ip_address(host)
    except ValueError:
        own = None
    if host == "localhost" or (own is not None and own.is_loopback):
        return True
    return any(_matches(host, own, port, text.strip().lower()) for text in exceptions.split(",") if text.strip())


def _matches(host: str, own: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int | None, text: str) -> bool:
    if text == "*":
        return True
    if own is not None:
        try:
            return own in ipaddress.ip_network(text.strip("[]"), strict=False)
        except ValueError:
            pass
    name, colon, only = text.rpartition(":") if text.count(":") == 1 or text.startswith("[") else (text, "", "")
    if colon and only.isdigit():
        if int(only) != port:
            return False
        text = name
    if own is not None:
        return host == text.strip("[]")
    text = text.removeprefix("*")
    return (host == text.lstrip(".") and not text.startswith(".")) or host.endswith("." + text.lstrip("."))
