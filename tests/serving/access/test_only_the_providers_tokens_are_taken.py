"""Of a provider's tokens those are taken that it signed, for us, now, with the one algorithm and of a type that fits."""

import asyncio
import hmac
import json
from base64 import urlsafe_b64encode
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from joserfc import jwk, jwt

from tandem.serving.access.oidc import Oidc, OidcError, provider
from tandem.serving.access.rights import Principal
from tests.serving.access.provider import ADDRESS, ISSUER, SETTINGS, Issuing, new_key
from tests.serving.world import NOON


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issuing() -> Issuing:
    return Issuing()


def known(issuing: Issuing, **change: Any) -> Oidc:
    """With the provider's keys as they are now."""
    found = provider(msgspec.structs.replace(SETTINGS, **change))
    assert found is not None
    made = Oidc.of(found, Clock(), fetch=issuing.fetch)

    async def fetched() -> Oidc:
        async with made.open():
            return made

    return asyncio.run(fetched())


def whose(issuing: Issuing, shown: str) -> Principal | None:
    return known(issuing).whose(shown, now=NOON)


def test_a_valid_token_has_the_rights_of_its_claim(issuing: Issuing) -> None:
    found = whose(issuing, issuing.signed())
    assert found is not None
    assert (str(found), found.rights.rows, found.expires) == ("oidc:ann", ("page=/a",), NOON + timedelta(minutes=5))
    both = whose(issuing, issuing.signed(groups=["x", "staff", "boss"]))
    assert both is not None
    assert both.rights.verbs == {"read", "admin"}  # the first of the settings that fits
    assert whose(issuing, issuing.signed(groups="boss")) is not None
    assert whose(issuing, issuing.signed(aud=["other", "tandem"])) is not None


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"},
        {"aud": ["another"]},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"exp": int(NOON.timestamp()) - 31},
        {"exp": None},
        {"exp": "soon"},
        {"exp": 10**30},
        {"nbf": int(NOON.timestamp()) + 31},
        {"sub": None},
        {"sub": 7},
        {"groups": None},
        {"groups": ["nobody"]},
        {"groups": {"boss": 1}},
    ],
    ids=str,
)
def test_a_token_with_other_claims_is_refused(issuing: Issuing, claims) -> None:
    assert whose(issuing, issuing.signed(**claims)) is None


def test_clocks_may_differ_a_little(issuing: Issuing) -> None:
    assert whose(issuing, issuing.signed(exp=int(NOON.timestamp()) - 29)) is not None
    assert whose(issuing, issuing.signed(nbf=int(NOON.timestamp()) + 29)) is not None


def test_another_keys_signature_is_refused(issuing: Issuing) -> None:
    assert whose(issuing, issuing.signed(key=new_key())) is None
    shown = issuing.signed()
    assert whose(issuing, shown[:-4] + "AAAA") is None
    head, body, signature = shown.split(".")
    assert whose(issuing, f"{head}.{body[:-3]}AAA.{signature}") is None


def test_the_algorithm_is_the_configured_one_whatever_the_header_says(issuing: Issuing) -> None:
    claims = {"iss": ISSUER, "aud": "tandem", "sub": "ann", "exp": int(NOON.timestamp()) + 60, "groups": ["boss"]}

    def part(content: bytes) -> str:
        return urlsafe_b64encode(content).decode().rstrip("=")

    def unsigned(algorithm: str) -> str:
        return f"{part(json.dumps({'alg': algorithm, 'kid': 'k1'}).encode())}.{part(json.dumps(claims).encode())}"

    # The public key, known to all, as if it were a shared secret.
    confused = hmac.digest(issuing.key.as_pem(private=False), unsigned("HS256").encode(), "sha256")
    assert whose(issuing, f"{unsigned('HS256')}.{part(confused)}") is None
    assert whose(issuing, f"{unsigned('none')}.") is None
    other = jwk.ECKey.generate_key("P-384", {"kid": "k1"})
    assert whose(issuing, jwt.encode({"alg": "ES384", "kid": "k1"}, claims, other, algorithms=["ES384"])) is None


def test_a_key_inside_a_token_is_ignored(issuing: Issuing) -> None:
    own = new_key()
    for header in ({"jwk": own.as_dict(private=False)}, {"jku": "https://evil.example/keys"}):
        assert whose(issuing, issuing.signed(key=own, header=header)) is None


@pytest.mark.parametrize("shown", ["", "a", "a.b.c", "....", "é", "e30.e30.e30", "x" * 50_000])
def test_an_invalid_token_is_refused(issuing: Issuing, shown: str) -> None:
    assert whose(issuing, shown) is None


def test_without_keys_no_token_can_be_checked(issuing: Issuing) -> None:
    found = provider(SETTINGS)
    assert found is not None
    with pytest.raises(OidcError, match="have not been fetched yet; try again"):
        Oidc.of(found, Clock(), fetch=issuing.fetch).whose(issuing.signed(), now=NOON)


@pytest.mark.parametrize("typ", ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", None])
def test_access_tokens_have_a_type_that_providers_send(issuing: Issuing, typ: str | None) -> None:
    assert whose(issuing, issuing.signed(header={"typ": typ})) is not None


@pytest.mark.parametrize("typ", ["logout+jwt", "dpop+jwt", "secevent+jwt", "application/logout+jwt", "", "none ", "application/"])
def test_tokens_of_other_types_are_refused(issuing: Issuing, typ: str) -> None:
    assert whose(issuing, issuing.signed(header={"typ": typ})) is None


def test_the_types_can_be_restricted_to_rfc_9068(issuing: Issuing) -> None:
    strict = known(issuing, typ="application/at+jwt")
    shown = {typ: issuing.signed(header={"typ": typ}) for typ in ("at+jwt", "application/at+jwt", "JWT", "none", None)}
    taken = [typ for typ, text in shown.items() if strict.whose(text, now=NOON) is not None]
    assert taken == ["at+jwt", "application/at+jwt"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"audience": ""}, "has an issuer but no audience"),
        ({"rights": {}}, "has an issuer but no rights"),
        ({"keys": "http://id.example/keys"}, "expected an https address"),
        ({"keys": "file:///etc/passwd"}, "expected an https address"),
        ({"stale_s": 299}, "stale_s = 299 is below refresh_s = 300"),
        ({"typ": " , "}, "accepts no token"),
        ({"rights": {"boss": ("reed",)}}, "serving.oidc.rights of 'boss': unknown right 'reed'"),
    ],
)
def test_settings_that_are_not_safe_are_refused(change, sentence: str) -> None:
    with pytest.raises(OidcError, match=sentence):
        provider(msgspec.structs.replace(SETTINGS, **change))


def test_loopback_needs_no_tls_and_no_issuer_means_none() -> None:
    for address in ("http://127.0.0.1:8/keys", "http://localhost/keys", "http://[::1]:8/keys", ADDRESS):
        found = provider(msgspec.structs.replace(SETTINGS, keys=address))
        assert found is not None
        assert replace(found, keys=address) == found
    assert provider(msgspec.structs.replace(SETTINGS, issuer="")) is None
