"""The webhook's own certificate: what to do about it, and how one is made. Pure but for the keys' randomness.

Every renewal makes a fresh authority, whose key is thrown away at once, and one serving certificate signed by it. The
Secret keeps the serving pair and a bundle: the new authority and those before it that are still in use somewhere. So
a replica that serves the old pair stays trusted until it has loaded the new one.

As a program (``python -m forewarn.admission.certificates``) it answers one question of material.py.
"""

from __future__ import annotations

import datetime
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from forewarn.admission.material import Material, Renewal

if TYPE_CHECKING:
    from collections.abc import Sequence

LIFETIME = datetime.timedelta(days=365)
RENEW_BEFORE = datetime.timedelta(days=120)
_CLOCK_SKEW = datetime.timedelta(hours=1)
_AUTHORITY = "forewarn admission"
_KEPT_AUTHORITIES = 3


def make(names: Sequence[str], now: datetime.datetime, trusted: str = "") -> Material:
    """Make an authority and a certificate for ``names`` that it signs, valid from ``now`` on.

    ``trusted`` is a bundle (PEM) whose unexpired authorities of ours stay trusted: a replica may still serve by them.
    """
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    number = f"{x509.random_serial_number():x}"[:32]
    issuer = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, _AUTHORITY),
            # Two authorities of one name would be taken for each other.
            x509.NameAttribute(NameOID.SERIAL_NUMBER, number),
        ]
    )
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    cert = (
        _builder(subject, issuer, key.public_key(), now)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    kept = [old for old in dict.fromkeys(_authorities(trusted)) if old.not_valid_after_utc > now]
    unprotected = serialization.NoEncryption()
    return Material(
        cert=_pem(cert),
        key=key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, unprotected).decode(),
        bundle="".join(_pem(each) for each in (authority, *kept[: _KEPT_AUTHORITIES - 1])),
    )


def _pem(cert: x509.Certificate) -> str:
    return cert.public_bytes(serialization.Encoding.PEM).decode()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _authorities(bundle: str) -> list[x509.Certificate]:
    """Return the authorities of ours in a bundle; none where it cannot be read."""
    try:
        found = x509.load_pem_x509_certificates(bundle.encode()) if bundle.strip() else []
    except ValueError:
        return []
    return [
        each
        for each in found
        if any(part.value == _AUTHORITY for part in each.subject.get_attributes_for_oid(NameOID.COMMON_NAME))
    ]


def fault(material: Material, names: Sequence[str], now: datetime.datetime) -> str | None:
    """Return why a pair must be renewed, ``None`` where it is good.

    It is good while it can be read, key and certificate belong together, it is for every name, an authority of its
    bundle signed it, and it is not within ``RENEW_BEFORE`` of its end.
    """
    try:
        cert = x509.load_pem_x509_certificate(material.cert.encode())
        key = serialization.load_pem_private_key(material.key.encode(), None)
        authorities = x509.load_pem_x509_certificates(material.bundle.encode())
        for_names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return "it cannot be read"
    if cert.public_key() != key.public_key():
        return "certificate and key do not belong together"
    if not set(names) <= set(for_names.get_values_for_type(x509.DNSName)):
        return f"it is not for {names[0]}"
    if not any(_signed_by(cert, authority) for authority in authorities):
        return "no authority of its bundle signed it"
    if cert.not_valid_before_utc > now + _CLOCK_SKEW or now > cert.not_valid_after_utc - RENEW_BEFORE:
        return f"it ends at {cert.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    return None


def _signed_by(cert: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        cert.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def renew(kept: Material | None, names: Sequence[str], now: datetime.datetime, trusted: str = "") -> Renewal:
    """Return the pair that is kept, or a new one where there is none or it must be renewed (see ``make``)."""
    because = "there is none" if kept is None else fault(kept, names, now)
    material = kept if kept is not None and because is None else make(names, now, trusted)
    cert = x509.load_pem_x509_certificate(material.cert.encode())
    authorities = x509.load_pem_x509_certificates(material.bundle.encode())
    authority = next(each for each in authorities if _signed_by(cert, each))
    return Renewal(material, because, cert.not_valid_after_utc, _pem(authority))


def main() -> None:
    """Answer one question in JSON on standard input: ``renew``'s arguments in, its result out."""
    question = json.load(sys.stdin)
    kept = None if question["kept"] is None else Material(**question["kept"])
    now = datetime.datetime.fromisoformat(question["now"])
    answer = asdict(renew(kept, question["names"], now, question["trusted"]))
    json.dump({**answer, "ends_at": answer["ends_at"].isoformat()}, sys.stdout)


if __name__ == "__main__":
    main()
