"""Java options that let a JVM reach the network as this Python does. Set-up runs this with only the standard library.

Usage: `python -m tandem.infra.java.network [TRUST_STORE]`. Prints the options as a java @file: the proxy of the environment, and,
if TRUST_STORE names a file to write, a trust store of the certificates that Python trusts. A packaged Java has neither; the
machine's own Java is configured like the machine.
"""

import hashlib
import ssl
import struct
import sys
import urllib.parse
import urllib.request
from pathlib import Path

_PASSWORD = "changeit"  # noqa: S105 - the format demands one; there is nothing secret in the file


def proxy_options() -> list[str]:
    """The proxies that pip and uv use, as Java's properties."""
    options = []
    proxies = urllib.request.getproxies()
    for scheme in ("http", "https"):
        proxy = urllib.parse.urlsplit(proxies.get(scheme, ""))
        if proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    if options and (excepted := proxies.get("no")):
        hosts = [f"*{host}" if host.startswith(".") else host for host in excepted.replace(" ", "").split(",") if host]
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(hosts)}")
    return options


def trust_options(file: Path) -> list[str]:
    """Write the certificates that Python trusts to a trust store; nothing if Python has none."""
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not certificates:
        return []
    file.write_bytes(trust_store(certificates))
    return [f"-Djavax.net.ssl.trustStore={file}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}"]


def trust_store(certificates: list[bytes]) -> bytes:
    """DER certificates as a Java key store (JKS, version 2), as sun.security.provider.JavaKeyStore reads it."""
    content = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        content += struct.pack(">I", 2) + _text(f"ca-{number}") + struct.pack(">Q", 0)
        content += _text("X.509") + struct.pack(">I", len(certificate)) + certificate
    salted = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + content
    return content + hashlib.sha1(salted, usedforsecurity=False).digest()


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")


if __name__ == "__main__":
    options = proxy_options() + [option for file in sys.argv[1:] for option in trust_options(Path(file))]
    sys.stdout.write("".join(f'"{option}"\n' for option in options))
