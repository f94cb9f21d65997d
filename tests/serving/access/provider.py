"""An identity provider that a test plays: its keys, and tokens that it signs."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from joserfc import jwk, jwt

from tandem.infra.settings import OidcSettings as Settings
from tests.serving.world import NOON

ISSUER, AUDIENCE, ADDRESS = "https://id.example", "tandem", "https://id.example/keys"
SETTINGS = Settings(
    issuer=ISSUER,
    audience=AUDIENCE,
    keys=ADDRESS,
    algorithm="ES256",
    rights={"boss": ("read", "admin"), "staff": ("read", "view:per_page", "row:page=/a")},
)


def new_key(kid: str = "k1") -> jwk.ECKey:
    return jwk.ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


@dataclass
class Issuing:
    """Signs tokens, and hands out its keys; `asked` counts how often."""

    key: jwk.ECKey = field(default_factory=new_key)
    asked: int = 0

    async def fetch(self, address: str) -> bytes:
        assert address == ADDRESS
        self.asked += 1
        return self.document()

    def document(self) -> bytes:
        others = [{"kty": "oct", "k": "c2VjcmV0", "kid": "sym"}, {"kty": "new", "kid": "x"}, {"kty": "EC", "kid": "torn"}, 7]
        return json.dumps({"keys": [*others, self.key.as_dict(private=False)]}).encode()

    def signed(
        self, *, now: datetime = NOON, key: jwk.Key | None = None, header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        told = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "ann",
            "exp": int((now + timedelta(minutes=5)).timestamp()),
            "nbf": int(now.timestamp()),
            "groups": ["staff"],
        } | claims
        told = _without_none(told)
        signing = key or self.key
        return jwt.encode(
            _without_none({"alg": "ES256", "typ": "JWT", "kid": signing.kid, **(header or {})}),
            told,
            signing,
            algorithms=["ES256", "HS256"],
        )


def _without_none(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value is not None}
