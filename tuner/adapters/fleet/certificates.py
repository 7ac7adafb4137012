"""TLS certificates of a fleet; every holder of the key can join the fleet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tuner.adapters.fleet.scheduler import CA, CERTIFICATE, KEY
from tuner.core.errors import ConfigError

VALID_DAYS = 1825
_CLOCKS_APART = timedelta(days=1)  #: tolerance for hosts whose clock is behind


def write_certificates(folder: Path, hosts: Sequence[str]) -> list[Path]:
    """Create *folder* with the certificate of an authority, and one certificate signed by it.

    Scheduler, hosts and coordinator all use that certificate. The authority's key is not stored, so that no
    further certificate can be signed. *hosts* are listed in it for people; Dask does not check them.

    Raises:
        ConfigError: a file already exists, or cannot be written.
    """
    files = [folder / name for name in (CA, CERTIFICATE, KEY)]
    if there := [str(file) for file in files if os.path.lexists(file)]:
        raise ConfigError(f"{there[0]} exists already, and is not overwritten", hint="Name another folder.")
    texts = _make_certificates(hosts)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file, text in zip(files, texts, strict=True):
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "wb") as out:
                out.write(text)
    except OSError as error:
        raise ConfigError(
            f"cannot write {error.filename or folder}: {error.strerror}", hint="Name a folder of yours."
        ) from error
    return files


def _make_certificates(hosts: Sequence[str]) -> tuple[bytes, bytes, bytes]:
    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name, name = _name_of("tuner fleet authority"), _name_of("tuner fleet")
    ca = (
        _begin_certificate(ca_name, ca_name, authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(authority, hashes.SHA256())
    )
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    named = [_host(host) for host in dict.fromkeys(["localhost", *hosts])]
    certificate = (
        _begin_certificate(name, ca_name, own.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName(named), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False
        )
        .sign(authority, hashes.SHA256())
    )
    key = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return ca.public_bytes(Encoding.PEM), certificate.public_bytes(Encoding.PEM), key


def _begin_certificate(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_APART)
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name_of(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


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


def _host(text: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ip_address(text))
    try:
        return x509.DNSName(text)
    except ValueError as error:
        raise ConfigError(
            f"--host {text!r} is not a host name", hint="Example: staging-1, or 10.0.0.7"
        ) from error
