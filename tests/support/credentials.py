"""Throw-away certificates and kubeconfigs for an API server of a test run."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = datetime.timedelta(days=7)


def new_key() -> tuple[ec.EllipticCurvePrivateKey, bytes]:
    """Return a new P-256 key and its PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return key, pem


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write both to ``directory`` and return their paths."""
        certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.touch(0o600)
        key.write_bytes(self.key)
        return certificate, key


class Authority:
    """A certificate authority that lives as long as this object."""

    def __init__(self, name: str) -> None:
        self._key, _ = new_key()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    def _builder(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + LIFE)
        )

    def server(self, names: Sequence[str]) -> Pair:
        """Return a server's pair for these host names and addresses."""
        alternatives: list[x509.GeneralName] = []
        for name in names:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                alternatives.append(x509.DNSName(name))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        return self._sign(subject, ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """Return a client's pair; Kubernetes reads the user and the groups from its subject."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._sign(subject, ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def _sign(self, subject: x509.Name, usage: x509.ObjectIdentifier, names: list[x509.GeneralName]) -> Pair:
        key, pem = new_key()
        builder = self._builder(subject, key.public_key()).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), pem)


def write_kubeconfig(path: Path, url: str, ca: bytes, user: Pair | str) -> Path:
    """Write a kubeconfig for a client's pair or a bearer token, readable by its owner only; return ``path``."""

    def data(raw: bytes) -> str:
        return base64.b64encode(raw).decode()

    if isinstance(user, Pair):
        credentials = {"client-certificate-data": data(user.certificate), "client-key-data": data(user.key)}
    else:
        credentials = {"token": user}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority-data": data(ca)}}],
        "users": [{"name": "test", "user": credentials}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
        "current-context": "test",
    }
    path.touch(0o600)
    path.write_text(json.dumps(content, indent=1))
    return path
