"""The private key of a client's certificate for Java's clients, which cannot read keys that OpenSSL encrypted (PBES2)."""

from pathlib import Path

from cryptography.hazmat.primitives import serialization


def plain_key(path: str, password: str) -> str:
    """The key of this PEM file as PEM text without encryption, in PKCS #8."""
    key = serialization.load_pem_private_key(Path(path).read_bytes(), password.encode())
    plain = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return plain.decode("ascii")
