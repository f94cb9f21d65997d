"""Why a broker refuses a client, from the words of each client: kafka-python, librdkafka, and Spark's in Java."""

import re
from typing import Final

from tandem.infra.kafka.address import Address
from tandem.infra.kafka.contract import BrokerRefused, BrokerTooOld, LoginRefused, RightMissing, UnknownAuthority

LEAST_VERSION: Final = (2, 8)
"""The first version whose topics have ids, by which a topic that was created again differs from the former one."""

_OF_TOKENS: Final = "kafka.login_url, kafka.login_ca_file, kafka.username and kafka.password"
_OF_PASSWORDS: Final = "kafka.mechanism, kafka.username and kafka.password"

_NOISE: Final = re.compile(r"^\w+://\S+: |\(after \d+ms in state \w+\)$|^Sasl\w+Error: |^\w+Exception: (?=.)")
"""The parts of a client's message that are not the broker's: an address, a state, a class."""
_TOKEN: Final = re.compile(r"OAUTHBEARER token|LoginException")
# Matched in this order: a handshake that fails for its authority also reports a failed login.
_AUTHORITY: Final = re.compile(
    r"certificate.verify.failed|unable to get (local )?issuer|self.signed certificate|PKIX path",
    re.IGNORECASE,
)
_CERTIFICATE: Final = re.compile(
    r"alert.{0,20}(certificate|unknown.ca|access.denied|handshake.failure)|(bad|unknown|required).certificate|certificate_(unknown|required)",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(
    r"Sasl\w*Authentication\w*|SASL authentication|Authentication failed|invalid credentials|"
    r"Unsupported.?Sasl.?Mechanism|Illegal SASL|no.{0,20}supported sasl mechanism",
    re.IGNORECASE,
)
_RIGHT: Final = re.compile(r"authorization.?failed|not authorized|AuthorizationException", re.IGNORECASE)
_VERSION: Final = re.compile(r"UnsupportedVersion|IncompatibleBrokerVersion|incompatible broker version", re.IGNORECASE)


def refusal_of(address: Address, words: str, *, what: str = "a request") -> BrokerRefused | None:
    """The error to raise for a client's message; None if the message reports no refusal.

    `what` names the request in the sentence about a missing right.
    """
    place, short = f"Kafka at {address.bootstrap}", _NOISE.sub("", words).strip().rstrip(".")
    if _TOKEN.search(words):
        return LoginRefused(f"{place} asks for a token: {short}; check {_OF_TOKENS}")
    if _AUTHORITY.search(words):
        trusted = address.options.get("ssl.ca.location")
        among = f"kafka.ca_file = {trusted!r}" if trusted else "this system's, and kafka.ca_file names no other"
        return UnknownAuthority(
            f"no trusted authority has signed the certificate of {place}: {short}; trusted are those of {among}"
        )
    if _RIGHT.search(words):
        return RightMissing(f"{place} denies {what}: {short}; docs/kafka.md lists the rights that a user needs")
    if _CERTIFICATE.search(words):
        return LoginRefused(f"{place} refuses the login: {short}; check kafka.certificate_file and kafka.key_file")
    if _LOGIN.search(words):
        return LoginRefused(f"{place} refuses the login: {short}; check {_of_login(address)}")
    if _VERSION.search(words):
        return too_old(address, short)
    return None


def too_old(address: Address, version: str) -> BrokerTooOld:
    """The broker lacks what a request needs; `version` is its version, or the client's words."""
    least = ".".join(map(str, LEAST_VERSION))
    return BrokerTooOld(f"the broker of Kafka at {address.bootstrap} is too old: {version}; Tandem needs Kafka {least} or later")


def _of_login(address: Address) -> str:
    return _OF_TOKENS if address.options.get("sasl.mechanism") == "OAUTHBEARER" else _OF_PASSWORDS
