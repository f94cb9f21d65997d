"""Of a provider's tokens those are taken that it signed, for us, now, with the one algorithm; its keys are fetched rarely."""

import hmac
import json
import threading
from base64 import urlsafe_b64encode
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from joserfc import jwk, jwt

from serving.access import oidc
from serving.access.oidc import Oidc, OidcError, provider
from serving.access.rights import Principal
from tests.serving.access.provider import ADDRESS, ISSUER, SETTINGS, Issuing, new_key
from tests.serving.world import NOON


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issuing() -> Issuing:
    return Issuing()


def known(issuing: Issuing, clock: Clock | None = None) -> Oidc:
    found = provider(SETTINGS)
    assert found is not None
    return Oidc(found, clock or Clock(), issuing.fetch)


def whose(issuing: Issuing, shown: str) -> Principal | None:
    return known(issuing).whose(shown, now=NOON)


def test_a_token_that_fits_has_the_rights_of_its_claim(issuing: Issuing) -> None:
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
def test_a_token_whose_claims_do_not_fit_is_nobodys(issuing: Issuing, claims) -> None:
    assert whose(issuing, issuing.signed(**claims)) is None


def test_clocks_may_differ_a_little(issuing: Issuing) -> None:
    assert whose(issuing, issuing.signed(exp=int(NOON.timestamp()) - 29)) is not None
    assert whose(issuing, issuing.signed(nbf=int(NOON.timestamp()) + 29)) is not None


def test_another_keys_signature_is_nobodys(issuing: Issuing) -> None:
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


def test_a_key_that_a_token_brings_is_not_looked_at(issuing: Issuing) -> None:
    own = new_key()
    for header in ({"jwk": own.as_dict(private=False)}, {"jku": "https://evil.example/keys"}):
        assert whose(issuing, issuing.signed(key=own, header=header)) is None


@pytest.mark.parametrize("shown", ["", "a", "a.b.c", "....", "é", "e30.e30.e30", "x" * 5000])
def test_what_is_no_token_is_nobodys(issuing: Issuing, shown: str) -> None:
    assert whose(issuing, shown) is None


def test_keys_are_fetched_once_and_for_unknown_ones_at_most_once_a_minute(issuing: Issuing) -> None:
    clock = Clock()
    oidc_ = known(issuing, clock)
    for _ in range(3):
        assert oidc_.whose(issuing.signed(), now=NOON)
    assert issuing.asked == 1
    issuing.key = new_key("k2")  # rotated
    clock.now = 59
    for _ in range(3):
        assert oidc_.whose(issuing.signed(), now=NOON) is None
    assert issuing.asked == 1
    clock.now = 60
    assert oidc_.whose(issuing.signed(), now=NOON)
    assert oidc_.whose(issuing.signed(key=new_key("k3")), now=NOON) is None
    assert issuing.asked == 2


def test_without_keys_nobody_can_be_told(issuing: Issuing) -> None:
    found = provider(SETTINGS)
    assert found is not None
    with pytest.raises(OidcError, match="is no set of keys"):
        Oidc(found, Clock(), lambda _: b"{}").whose(issuing.signed(), now=NOON)
    with pytest.raises(OidcError, match="cannot be had"):
        oidc.fetch("http://127.0.0.1:9/keys")


def test_keys_that_could_not_be_had_are_asked_for_again_soon(issuing: Issuing) -> None:
    clock, found = Clock(), provider(SETTINGS)
    assert found is not None
    down = [True]

    def fetch(address: str) -> bytes:
        if down[0]:
            raise OidcError("the provider is down")
        return issuing.fetch(address)

    oidc_ = Oidc(found, clock, fetch)
    with pytest.raises(OidcError, match="is down"):
        oidc_.whose(issuing.signed(), now=NOON)
    down[0] = False
    clock.now = 4.9
    with pytest.raises(OidcError, match="not there yet"):  # which is no word on the token
        oidc_.whose(issuing.signed(), now=NOON)
    clock.now = 5
    assert oidc_.whose(issuing.signed(), now=NOON)
    clock.now = 12
    assert oidc_.whose(issuing.signed(key=new_key("k9")), now=NOON) is None
    assert issuing.asked == 1


def test_who_has_a_known_key_does_not_wait_for_who_has_not(issuing: Issuing) -> None:
    clock, found = Clock(), provider(SETTINGS)
    assert found is not None
    asked, go_on = threading.Event(), threading.Event()
    go_on.set()

    def fetch(address: str) -> bytes:
        asked.set()
        assert go_on.wait(60)
        return issuing.fetch(address)

    oidc_ = Oidc(found, clock, fetch)
    assert oidc_.whose(issuing.signed(), now=NOON)
    go_on.clear()
    asked.clear()
    clock.now = 60
    stranger = threading.Thread(target=oidc_.whose, args=(issuing.signed(key=new_key("k9")),), kwargs={"now": NOON})
    stranger.start()
    assert asked.wait(60)
    assert oidc_.whose(issuing.signed(), now=NOON)
    go_on.set()
    stranger.join()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"audience": ""}, "has an issuer but no audience"),
        ({"rights": {}}, "has an issuer but no rights"),
        ({"keys": "http://id.example/keys"}, "must be an https address"),
        ({"keys": "file:///etc/passwd"}, "must be an https address"),
        ({"rights": {"boss": ("reed",)}}, "serving.oidc.rights of 'boss': 'reed'"),
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
