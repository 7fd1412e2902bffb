"""The connection to a cluster: which kubeconfig, lightkube clients, and every failure as one line for the user."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec
import yaml
from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
from lightkube import AsyncClient, Client
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import Cluster, Context, NameValue, User, UserExec
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.generic_resource import create_namespaced_resource

from forewarn import yaml_error
from forewarn.errors import UserError
from forewarn.proxy import proxy_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_KUBECONFIG = "~/.kube/config"
FLAG = "--kubeconfig"
VARIABLE = "KUBECONFIG"

FAILURES: tuple[type[Exception], ...] = (
    ApiError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    HTTPXWSException,
    ConfigError,
    OSError,
)
"""What talking to a cluster raises where the cluster, the network or the user's rights are the cause."""

AnyEvent: Any = create_namespaced_resource("events.k8s.io", "v1", "Event", "events")
"""An Event as a mapping: lightkube's own class refuses those of older components, whose ``eventTime`` is null."""

_NO_TLS_FAULT = (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLZeroReturnError, ssl.SSLEOFError)
"""What ssl raises on the way where the connection, not TLS, is the matter."""

_ANOTHER = f"name another cluster with {FLAG} or {VARIABLE}"
_PATHS = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}
_SECTIONS = {"clusters": ("cluster", Cluster), "contexts": ("context", Context), "users": ("user", User)}


def connect(kubeconfig: str | None = None, context: str | None = None) -> SingleConfig:
    """Choose the cluster, as kubectl does; nothing is sent to it.

    The order: ``kubeconfig`` (the flag), ``$KUBECONFIG`` (several files, separated by colons, are merged: the first
    that names a thing wins), ``~/.kube/config``, and in a pod its service account. ``context`` overrides the file's
    current context. Raises ``UserError`` that names the file where it is missing, broken or incomplete.
    """
    if kubeconfig is not None:
        return _select([(FLAG, Path(kubeconfig).expanduser())], context)
    named = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    if named:
        paths = [(VARIABLE, Path(part).expanduser()) for part in named]
        # As kubectl: of several files those that do not exist are passed over.
        return _select([pair for pair in paths if pair[1].exists()] or paths[:1], context)
    default = Path(DEFAULT_KUBECONFIG).expanduser()
    if not default.exists() and os.environ.get("KUBERNETES_SERVICE_HOST") and Path(SERVICE_ACCOUNT, "token").exists():
        return _single(KubeConfig.from_service_account(), None, Path(SERVICE_ACCOUNT))
    if not default.exists():
        raise UserError(
            "kubeconfig", f"{VARIABLE} is not set and {default} does not exist", f"set {VARIABLE} or give {FLAG} FILE"
        )
    return _select([(str(default), default)], context)


def client(config: SingleConfig, **options: Any) -> Client:
    """Make a lightkube client; a certificate or key that cannot be used is a ``UserError``.

    ``options`` are lightkube's (``namespace``, ``timeout``, ``field_manager``, ``dry_run``).
    """
    with _loading(config):
        return Client(config, **_direct(config), **options)


def async_client(config: SingleConfig, **options: Any) -> AsyncClient:
    """Make an asynchronous lightkube client; errors and ``options`` as for ``client``."""
    with _loading(config):
        return AsyncClient(config, **_direct(config), **options)


def _direct(config: SingleConfig) -> dict[str, Any]:
    """Return the options that leave nothing to httpx's own reading of the environment."""
    return {"proxy": proxy_of(config.cluster.server, os.environ), "trust_env": False}


@contextlib.contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn what the block's requests raise into a ``UserError``; ``doing`` names the attempt: ``list pods in team``.

    Works around ``await`` as well. Other exceptions, which are this program's own mistakes, pass.
    """
    try:
        yield
    except FAILURES as error:
        raise explain(error, doing) from error
    except KeyError as error:
        # lightkube reads the Content-Type of an error's response, which a proxy's may lack.
        if not isinstance(error.__context__, httpx2.HTTPStatusError):
            raise
        raise explain(error.__context__, doing) from error


def explain(error: Exception, doing: str) -> UserError:
    """Say in one line what failed, why, and what would do; ``doing`` names the attempt: ``create pod team/train``."""
    where = f"cannot {doing}"
    if isinstance(error, ApiError):
        return UserError(where, *_status(error.status.code or 0, error.status.message or "", _server(error)))
    if isinstance(error, WebSocketUpgradeError):
        return UserError(where, *_status(error.response.status_code, _body(error.response), "the API server"))
    if isinstance(error, httpx2.HTTPStatusError):
        return UserError(where, *_status(error.response.status_code, _body(error.response), _server(error)))
    if isinstance(error, ConfigError):
        return UserError(where, str(error), "see the user's entry in the kubeconfig")
    return UserError(where, *_transport(error, _server(error)))


def _status(code: int, message: str, server: str) -> tuple[str, str]:
    """Return what a status code of the API server means, and what would do."""
    message = message.rstrip(".")
    if code == 401:
        return f"{server} does not accept the credentials (401)", f"renew them in the kubeconfig, or {_ANOTHER}"
    if code == 403:
        # RBAC says `User "x" cannot list …`; quotas, pod security and other admission say why by themselves.
        lacking = "a kubeconfig or namespace with that right is needed" if " cannot " in message else ""
        return message or f"{server} forbids it (403)", lacking
    if code == 404:
        return message or f"{server} has no such thing (404)", ""
    if code == 409:
        exists = message.endswith("already exists")
        return message or "a conflict (409)", "delete it first, or choose another name" if exists else "run it again"
    if code == 429:
        return f"{server} is too busy or a limit holds it back (429): {message}", "run it again later"
    if code >= 500:
        return f"{server} failed ({code}){': ' + message if message else ''}", "run it again later"
    return message or f"{server} refused it ({code})", ""


def _transport(error: Exception, server: str) -> tuple[str, str]:
    """Return what a failure on the way to the API server means, and what would do."""
    causes = tuple(_causes(error))
    plain = (cause for cause in causes if str(cause) and not isinstance(cause, BaseExceptionGroup))
    text = str(next(plain, type(error).__name__))
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return (
            f"the certificate of {server} is not signed by the kubeconfig's certificate-authority",
            f"check that the kubeconfig belongs to this cluster, or {_ANOTHER}",
        )
    if any(isinstance(cause, ssl.SSLError) and not isinstance(cause, _NO_TLS_FAULT) for cause in causes):
        return f"no TLS connection to {server}: {text}", "is its address an https one of an API server?"
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes) or "connection attempts failed" in text:
        return f"{server} refuses the connection", f"start the cluster, or {_ANOTHER}"
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return f"the host name of {server} is not known", _ANOTHER
    if any(isinstance(cause, (TimeoutError, httpx2.TimeoutException)) for cause in causes):
        return f"{server} did not answer in time", f"see whether it is reachable, or {_ANOTHER}"
    if isinstance(error, (httpx2.UnsupportedProtocol, httpx2.InvalidURL)):
        return f"the kubeconfig's server address cannot be used: {text}", "allowed: https://HOST:PORT"
    if isinstance(error, FileNotFoundError):
        return f"the file or program {error.filename} does not exist", "see the user's entry in the kubeconfig"
    return f"the connection to {server} broke: {text}", "see whether it still runs"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, what it came from, and what a group holds."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        waiting.extend((current.__context__, current.__cause__))


def _server(error: Exception) -> str:
    request = getattr(error, "_request", None)
    if not isinstance(request, httpx2.Request):
        return "the API server"
    return f"the API server {request.url.scheme}://{request.url.netloc.decode('ascii', 'replace')}"


def _body(response: httpx2.Response) -> str:
    """Return the message of a Status, or an unknown body's first line; nothing where the body was not read."""
    try:
        text = response.text
    except httpx2.StreamError:
        return ""
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(text).get("message", ""))
    return text.strip().partition("\n")[0][:200]


def _select(files: list[tuple[str, Path]], context: str | None) -> SingleConfig:
    """Read and merge kubeconfig files (named with what told us of each) and pick the context."""
    merged: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    current: str | None = None
    for origin, path in files:
        content = _yaml(origin, path)
        for section, entries in _entries(path, content).items():
            merged[section] = entries | merged[section]
        current = current or content.get("current-context") or None
    path = files[0][1]
    config = KubeConfig(**merged, current_context=current, fname=path)
    return _single(config, context, path)


def _yaml(origin: str, path: Path) -> dict[str, Any]:
    named = str(path) if origin == str(path) else f"{path} ({origin})"
    allowed = f"allowed: a kubeconfig file, set by {FLAG} or {VARIABLE}"
    try:
        with yaml_error.explained(str(path), allowed):
            content = yaml.safe_load(path.read_bytes())
    except FileNotFoundError:
        raise UserError(named, "there is no such file", allowed) from None
    except OSError as error:
        raise UserError(named, f"it cannot be read: {error.strerror}", allowed) from None
    if not isinstance(content, dict) or not isinstance(content.get("clusters"), list):
        raise UserError(named, "this is not a kubeconfig: it lists no clusters", allowed)
    return content


def _entries(path: Path, content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the clusters, contexts and users of one file, their relative file names made absolute."""
    result: dict[str, dict[str, Any]] = {}
    for section, (inner, kind) in _SECTIONS.items():
        result[section] = {}
        for entry in content.get(section) or []:
            try:
                values = dict(entry[inner] or {})
                if values.get("proxy-url"):
                    raise UserError(
                        f"{path}, cluster {entry['name']}", "proxy-url is not read", "set HTTPS_PROXY instead"
                    )
                for key in _PATHS.get(inner, ()):
                    if values.get(key):
                        values[key] = str(path.parent / values[key])
                result[section][entry["name"]] = msgspec.convert(values, kind)
            except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
                raise UserError(str(path), f"an entry of {section} cannot be used: {error}", "") from None
    return result


def _single(config: KubeConfig, context: str | None, path: Path) -> SingleConfig:
    name = context or config.current_context
    names = ", ".join(sorted(config.contexts)) or "none"
    if name is None:
        raise UserError(str(path), "no current context is set", f"kubectl config use-context NAME; it has: {names}")
    if name not in config.contexts:
        raise UserError(str(path), f"there is no context {name!r}", f"allowed: {names}")
    chosen = config.contexts[name]
    if chosen.cluster not in config.clusters:
        raise UserError(str(path), f"context {name!r} names the cluster {chosen.cluster!r}, which is not there", "")
    if chosen.user and chosen.user not in config.users:
        raise UserError(str(path), f"context {name!r} names the user {chosen.user!r}, which is not there", "")
    # lightkube asserts that there is a user; an anonymous one is a user without anything.
    user = config.users[chosen.user] if chosen.user else User()
    if user.exec is not None:
        user.exec = _as_kubectl_runs(user.exec)
    cluster = config.clusters[chosen.cluster]
    if not (cluster.certificate_auth or cluster.certificate_auth_data or cluster.insecure):
        cluster.certificate_auth = os.environ.get("SSL_CERT_FILE") or None
    return SingleConfig(name, chosen, cluster, user, path)


def _as_kubectl_runs(plugin: UserExec) -> UserExec:
    """Return the login program with the variable that kubectl gives it.

    lightkube takes ``v1beta1`` alone; its answer is ``v1``'s, which the program learns from the variable.
    """
    asked = {"kind": "ExecCredential", "apiVersion": plugin.apiVersion, "spec": {"interactive": False}}
    told = NameValue("KUBERNETES_EXEC_INFO", json.dumps(asked))
    version = plugin.apiVersion.replace("/v1", "/v1beta1") if plugin.apiVersion.endswith("/v1") else plugin.apiVersion
    return msgspec.structs.replace(plugin, apiVersion=version, env=[*(plugin.env or ()), told])


@contextlib.contextmanager
def _loading(config: SingleConfig) -> Iterator[None]:
    """Turn what reading certificates, keys and tokens raises into a ``UserError`` that names the kubeconfig."""
    where = str(config.fname or "kubeconfig")
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(where, f"it names a file that does not exist: {error.filename or error}", "") from None
    except (ssl.SSLError, ValueError, TypeError) as error:
        # A broken base64 is a ValueError; a certificate without its key a TypeError.
        raise UserError(where, f"its certificates cannot be used: {error}", "") from None
    except (ConfigError, OSError, httpx2.InvalidURL) as error:
        raise UserError(where, f"it cannot be used: {error}", "") from None
