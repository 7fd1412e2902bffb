"""The webhook's certificate: what is good, what is renewed, and what stays trusted meanwhile."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from dataclasses import replace

import pytest

from forewarn.admission import certificates, server
from forewarn.admission.material import Material, renewed, service_names

NOW = datetime.datetime(2026, 11, 29, 12, 0, tzinfo=datetime.UTC)
NAMES = service_names("forewarn-admission", "forewarn")
DAY = datetime.timedelta(days=1)


@pytest.fixture(scope="module")
def material() -> Material:
    return certificates.make(NAMES, NOW)


def test_a_fresh_pair_is_good_and_kept(material: Material) -> None:
    renewal = certificates.renew(material, NAMES, NOW)
    assert renewal.because is None
    assert renewal.material == material
    assert renewal.trusted_by(material.bundle)


@pytest.mark.parametrize(
    ("change", "names", "days", "because"),
    [
        ({}, ("other.forewarn.svc",), 0, "it is not for other.forewarn.svc"),
        ({}, NAMES, 246, "it ends at 2027-11-29"),
        ({"key": certificates.make(NAMES, NOW).key}, NAMES, 0, "do not belong together"),
        ({"bundle": certificates.make(NAMES, NOW).bundle}, NAMES, 0, "no authority of its bundle signed it"),
        ({"cert": "rubbish"}, NAMES, 0, "it cannot be read"),
        ({"key": ""}, NAMES, 0, "it cannot be read"),
        ({"bundle": "\ufffd"}, NAMES, 0, "it cannot be read"),
    ],
)
def test_what_is_not_good_is_made_anew_and_says_why(
    material: Material, change: dict[str, str], names: tuple[str, ...], days: int, because: str
) -> None:
    renewal = certificates.renew(replace(material, **change), names, NOW + days * DAY)
    assert because in str(renewal.because)
    assert certificates.fault(renewal.material, names, NOW + days * DAY) is None


def test_nothing_kept_is_a_reason_too() -> None:
    assert certificates.renew(None, NAMES, NOW).because == "there is none"


def test_the_old_authority_stays_trusted_until_it_ends(material: Material) -> None:
    old = certificates.renew(material, NAMES, NOW)
    later = certificates.renew(material, NAMES, NOW + 300 * DAY, material.bundle * 3)
    assert later.trusted_by(later.material.bundle)
    assert old.trusted_by(later.material.bundle)
    assert later.material.bundle.count("BEGIN CERTIFICATE") == 2
    after = certificates.renew(later.material, NAMES, NOW + 600 * DAY, later.material.bundle)
    assert not old.trusted_by(after.material.bundle)


def test_a_bundle_does_not_grow_for_ever(material: Material) -> None:
    bundle = material.bundle
    for _ in range(5):
        bundle = certificates.make(NAMES, NOW, bundle).bundle
    assert bundle.count("BEGIN CERTIFICATE") == 3


def test_a_strangers_authority_is_not_taken_over() -> None:
    assert certificates.make(NAMES, NOW, "no certificate").bundle.count("BEGIN CERTIFICATE") == 1


def test_another_process_answers_the_same(material: Material) -> None:
    assert asyncio.run(renewed(material, NAMES, NOW, "")) == certificates.renew(material, NAMES, NOW)


def test_a_certificate_is_loaded_without_a_file_of_its_own(material: Material) -> None:
    context = server.tls_context()
    server.load_material(context, material)
    server.load_material(context, certificates.make(NAMES, NOW))
    with pytest.raises(ssl.SSLError):
        server.load_material(context, replace(material, key=""))
