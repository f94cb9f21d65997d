"""A test's identity provider: it issues signed tokens to clients with the right secret (OAuth 2, client credentials)."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.infra.kafka.secured.authority import SignedKey

ISSUER = "https://tokens.test"
AUDIENCE = "kafka"


def _packed(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _packed(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@dataclass(frozen=True)
class TokenIssuer:
    """The `secrets` of clients by their id, and the seconds for which a token is valid."""

    secrets: Mapping[str, str]
    valid_s: int = 3600
    url: str = ""
    asked: list[str] = field(default_factory=list)
    _key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))

    def write_keys(self, path: Path) -> None:
        """Write the JWK set with which a broker verifies tokens."""
        public = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": _number(public.n), "e": _number(public.e)}
        path.write_text(json.dumps({"keys": [key]}))

    def token(self, client: str) -> str:
        """A token of a client."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": client, "iat": now, "exp": now + self.valid_s, "scope": ["kafka"]}
        head = {"alg": "RS256", "typ": "JWT", "kid": "1"}
        signed = ".".join(_packed(json.dumps(part).encode()) for part in (head, claims))
        return f"{signed}.{_packed(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


@contextmanager
def serving(issuer: TokenIssuer, certificate: SignedKey) -> Iterator[TokenIssuer]:
    """The issuer with the address at which it answers, over TLS on loopback."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name that http.server calls
            body = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
            shown = base64.b64decode(self.headers.get("Authorization", "Basic ").removeprefix("Basic ")).decode()
            client, _, secret = shown.partition(":")
            valid = body.get("grant_type") == ["client_credentials"] and issuer.secrets.get(client) == secret
            issuer.asked.append(client)
            answer: dict[str, Any] = {"error": "invalid_client"}
            if valid:
                answer = {"access_token": issuer.token(client), "token_type": "Bearer", "expires_in": issuer.valid_s}
            content = json.dumps(answer).encode()
            self.send_response(200 if valid else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certificate, certificate.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield TokenIssuer(
            issuer.secrets, issuer.valid_s, f"https://127.0.0.1:{server.server_port}/token", issuer.asked, issuer._key
        )
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
