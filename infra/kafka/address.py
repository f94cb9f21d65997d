"""The address of a broker, and the login of a client."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tandem.infra.settings import KafkaSettings, Settings, SettingsError
from tandem.infra.settings.kafka_clients import OPTIONS, login_fault

_TOKENS: Final = "OAUTHBEARER"
_MODULE: Final = "org.apache.kafka.common.security"
_PKCS8: Final = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")


@dataclass(frozen=True)
class Address:
    """The address of a broker and the client's `options`, by librdkafka's names, without the bootstrap servers.

    A request without an answer within `timeout_s` times out. `further` are the options of the settings by Kafka's own names;
    `options` have them, too.
    """

    bootstrap: str
    options: Mapping[str, str] = field(repr=False)
    timeout_s: int
    further: Mapping[str, str] = field(default_factory=dict)


def login(security: str, mechanism: str, username: str, password: str) -> dict[str, str]:
    """The options of a client that logs in."""
    return {
        "security.protocol": security,
        "sasl.mechanism": mechanism,
        "sasl.username": username,
        "sasl.password": password,
    }


def outside(settings: Settings) -> Address:
    """The address of the broker that `kafka.bootstrap` names. Raises SettingsError for a login that no client can use."""
    kafka = settings.kafka
    if fault := login_fault(kafka):
        raise SettingsError(fault)
    options: dict[str, str] = {}
    if kafka.security.startswith("sasl"):
        by_token = kafka.mechanism == _TOKENS
        options = _token_login(kafka) if by_token else login(kafka.security, kafka.mechanism, kafka.username, kafka.password)
    elif kafka.security != "plaintext":
        options = {"security.protocol": kafka.security}
    if options and kafka.ca_file:
        options["ssl.ca.location"] = _authorities("ca_file", kafka.ca_file)
    if kafka.certificate_file:
        options |= _certificate(kafka)
    native = {name: value for option, value in kafka.options.items() if (name := OPTIONS[option].native)}
    return Address(kafka.bootstrap, options | native, kafka.timeout_s, dict(kafka.options))


def java_options(address: Address) -> dict[str, str]:
    """The same login and options for Kafka's Java clients, by their names, with the bootstrap servers.

    They have the client's certificate and key themselves, not their files: executors on other hosts have none.
    """
    told, options = address.options, {"bootstrap.servers": address.bootstrap}
    if security := told.get("security.protocol"):
        options["security.protocol"] = security.upper()
    if authorities := told.get("ssl.ca.location"):
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authorities}
    if certificate := told.get("ssl.certificate.location"):
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": Path(certificate).read_text("utf-8"),
            "ssl.keystore.key": _private_key(told),
        }
    if mechanism := told.get("sasl.mechanism"):
        options["sasl.mechanism"] = mechanism
        if mechanism == _TOKENS:
            options |= _java_token_login(told)
        else:
            options["sasl.jaas.config"] = jaas(mechanism, told["sasl.username"], told["sasl.password"])
    return options | {name: value for option, value in address.further.items() if (name := OPTIONS[option].java)}


def jaas(mechanism: str, username: str, password: str) -> str:
    """A login in the form of Java's login configuration (JAAS)."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return _jaas(module, {"username": username, "password": password})


def _jaas(module: str, options: Mapping[str, str]) -> str:
    quoted = (f"{name}={_quoted(value)}" for name, value in options.items())
    return f"{_MODULE}.{module} required {' '.join(quoted)};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _token_login(kafka: KafkaSettings) -> dict[str, str]:
    options = {
        "security.protocol": kafka.security,
        "sasl.mechanism": _TOKENS,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": kafka.login_url,
        "sasl.oauthbearer.client.id": kafka.username,
        "sasl.oauthbearer.client.secret": kafka.password,
    }
    if kafka.login_scope:
        options["sasl.oauthbearer.scope"] = kafka.login_scope
    if kafka.login_ca_file:
        options["https.ca.location"] = _authorities("login_ca_file", kafka.login_ca_file)
    return options


def _java_token_login(login: Mapping[str, str]) -> dict[str, str]:
    options = {"clientId": login["sasl.oauthbearer.client.id"], "clientSecret": login["sasl.oauthbearer.client.secret"]}
    if scope := login.get("sasl.oauthbearer.scope"):
        options["scope"] = scope
    if authorities := login.get("https.ca.location"):
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authorities}
    return {
        "sasl.jaas.config": _jaas("oauthbearer.OAuthBearerLoginModule", options),
        "sasl.login.callback.handler.class": f"{_MODULE}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": login["sasl.oauthbearer.token.endpoint.url"],
    }


def _authorities(name: str, path: str) -> str:
    """The path of a file of certificates of authorities, which a client reads by itself."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except OSError as error:
        raise _unusable(name, path, error, "a PEM file of certificates") from None
    return path


def _certificate(kafka: KafkaSettings) -> dict[str, str]:
    certificate, key, password = kafka.certificate_file, kafka.key_file, kafka.key_password
    try:
        text = Path(key).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable("key_file", key, error, "a PEM file with the private key of the certificate") from None
    if not any(begin in text for begin in _PKCS8):
        raise SettingsError(
            f"kafka.key_file = {key!r} has no private key in PKCS #8, which Java's clients need; "
            "`openssl pkcs8 -topk8 -in OLD -out NEW` writes it"
        )
    try:
        # Asked for a password that is not set, OpenSSL would otherwise ask at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, lambda: password)
    except OSError as error:
        expected = "a PEM file of a certificate, whose key is in kafka.key_file and opens by kafka.key_password"
        raise _unusable("certificate_file", certificate, error, expected) from None
    options = {"ssl.certificate.location": certificate, "ssl.key.location": key}
    return options | ({"ssl.key.password": password} if password else {})


def _private_key(login: Mapping[str, str]) -> str:
    path, password = login["ssl.key.location"], login.get("ssl.key.password")
    if not password:
        return Path(path).read_text("utf-8")
    from tandem.infra.kafka.private_key import plain_key  # noqa: PLC0415 - commands without an encrypted key do not load it

    return plain_key(path, password)


def _unusable(name: str, path: str, error: Exception, expected: str) -> SettingsError:
    why = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.strerror else error
    return SettingsError(f"kafka.{name} = {path!r} cannot be used: {why}; expected {expected}")
