"""A serving certificate and the authority it is trusted by, made here and kept in memory. Clock passed in.

Each certificate has an authority of its own whose key is forgotten at once: nobody can ever sign a second one.
"""

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=90)
AUTHORITY = "dtj-operator webhook authority"
# the API server's clock may be behind ours
BACKDATED = timedelta(hours=1)


@dataclass(frozen=True)
class Issued:
    """PEM. `authority` is public, what clients trust; `chain` and `key` are what the server shows and holds."""

    authority: str
    chain: bytes
    key: bytes
    begins: datetime
    ends: datetime

    def is_old(self, now: datetime) -> bool:
        """Two thirds of its life are over."""
        return now >= self.begins + (self.ends - self.begins) * 2 / 3


@dataclass(frozen=True)
class Rotation:
    """One certificate follows another without a moment in which a client trusts neither: its authority is told before
    it is shown, and that of the former is told until the next step. One step between two rounds of telling.

    Attributes:
        coming: what will be shown after the next step. `leaving`: what was, before the last.
    """

    serving: Issued
    coming: Issued | None = None
    leaving: Issued | None = None

    def step(self, now: datetime, issue: Callable[[datetime], Issued]) -> "Rotation":
        """What comes after everybody was told `authorities`."""
        if self.coming is not None:
            return Rotation(self.coming, leaving=self.serving)
        return Rotation(self.serving, coming=issue(now) if self.serving.is_old(now) else None)

    @property
    def authorities(self) -> tuple[str, ...]:
        """To trust now."""
        return tuple(issued.authority for issued in (self.leaving, self.serving, self.coming) if issued)


def issue(hosts: Sequence[str], now: datetime, lifetime: timedelta = LIFETIME) -> Issued:
    """A certificate for `hosts`, DNS names and IP addresses, that is valid from `now`."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    begins, ends = now, now + lifetime
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY)])
    authority = (
        _builder(name, name, authority_key.public_key(), begins, ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dtj-operator webhook")])
    certificate = (
        _builder(subject, name, key.public_key(), begins, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return Issued(
        authority=authority.public_bytes(pem).decode(),
        chain=certificate.public_bytes(pem),
        key=key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        begins=begins,
        ends=ends,
    )


def authorities(bundle: str, now: datetime) -> list[str]:
    """Those in a bundle, newest first, that were made here by whatever operator and are valid still. What cannot be
    read is left out."""
    try:
        certificates = x509.load_pem_x509_certificates(bundle.encode())
    except ValueError:
        return []
    ours = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY)])
    valid = [c for c in certificates if c.subject == ours and c.not_valid_after_utc > now]
    valid.sort(key=lambda certificate: certificate.not_valid_before_utc, reverse=True)
    # each once: several webhooks may name it
    return list(dict.fromkeys(one.public_bytes(serialization.Encoding.PEM).decode() for one in valid))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(begins - BACKDATED).not_valid_after(ends)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
