"""A certificate authority of a test, and certificates of loopback that it signs; all files are in the test's folder."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY: Final = timedelta(days=1)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@dataclass(frozen=True)
class SignedKey:
    """PEM files: a certificate, its private key, and both in one file as Java's PEM key stores are."""

    certificate: Path
    key: Path
    both: Path


@dataclass(frozen=True)
class Authority:
    """An authority whose files are in a folder."""

    folder: Path

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        return ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def file(self) -> Path:
        """Its own certificate."""
        self.folder.mkdir(parents=True, exist_ok=True)
        certificate = self._builder("authority", self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        path = self.folder / "authority.pem"
        path.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path

    def sign(self, name: str, *, password: str = "") -> SignedKey:
        """A certificate of 127.0.0.1 and localhost with this common name; its key is encrypted if there is a password."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")])
        signer = self._builder(name, key).add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        plain: serialization.KeySerializationEncryption = serialization.NoEncryption()
        hidden = serialization.BestAvailableEncryption(password.encode()) if password else plain
        certificate = signer.public_bytes(serialization.Encoding.PEM)
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
        self.folder.mkdir(parents=True, exist_ok=True)
        signed = SignedKey(*(self.folder / f"{name}-{part}.pem" for part in ("certificate", "key", "both")))
        for path, content in ((signed.certificate, certificate), (signed.key, private), (signed.both, private + certificate)):
            path.write_bytes(content)
        return signed

    def _builder(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return x509.CertificateBuilder(
            _named("authority"), _named(name), key.public_key(), x509.random_serial_number(), now - _DAY, now + _DAY
        )
