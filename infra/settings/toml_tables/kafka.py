from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Count, Memory, Port, Positive


class KafkaSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[kafka]`: the broker of the log."""

    bootstrap: Annotated[str, Meta(description="host:port list of an outside broker; empty starts the embedded broker.")] = ""
    port: Annotated[Port, Meta(description="Port of the embedded broker on 127.0.0.1; 0 picks a free port and keeps it.")] = 0
    memory: Annotated[Memory, Meta(description="Maximum Java heap of the embedded broker, such as 512m or 2g.")] = "512m"
    partitions: Annotated[Positive, Meta(description="Partitions of a topic that Tandem creates.")] = 2
    replication: Annotated[
        Count,
        Meta(
            description="Replicas of a topic that Tandem creates on an outside broker, most of which must acknowledge a record; "
            "0 takes three, or as many as there are brokers."
        ),
    ] = 0
    retention_hours: Annotated[Count, Meta(description="Retention of created topics; 0 keeps records for ever.")] = 0
    warn_hours: Annotated[
        Count,
        Meta(
            description="`status` warns this many hours before records that are not archived may be lost, at most half of the "
            "topic's retention."
        ),
    ] = 24
    security: Annotated[
        Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"], Meta(description="Security protocol of an outside broker.")
    ] = "plaintext"
    mechanism: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"],
        Meta(description="Login mechanism, with a sasl_ security."),
    ] = "PLAIN"
    username: Annotated[str, Meta(description="User name for the login; client id with OAUTHBEARER.")] = ""
    password: Annotated[
        str, Meta(description="Password, or client secret, for the login; prefer the variable TANDEM_KAFKA_PASSWORD.")
    ] = ""
    login_url: Annotated[str, Meta(description="Token endpoint of OAUTHBEARER, https or on loopback.")] = ""
    login_scope: Annotated[str, Meta(description="Scope of the tokens; empty asks for none.")] = ""
    login_ca_file: Annotated[str, Meta(description="PEM file of authorities that the endpoint's certificate needs.")] = ""
    ca_file: Annotated[str, Meta(description="PEM file of trusted certificate authorities; empty uses the system's.")] = ""
    certificate_file: Annotated[str, Meta(description="PEM file of this client's certificate, with ssl or sasl_ssl.")] = ""
    key_file: Annotated[str, Meta(description="PEM file of the certificate's private key (PKCS #8).")] = ""
    key_password: Annotated[
        str, Meta(description="Password of an encrypted key; prefer the variable TANDEM_KAFKA_KEY_PASSWORD.")
    ] = ""
    options: Annotated[
        dict[str, str], Meta(description="Further options of the clients, by Kafka's names; docs/kafka.md lists those accepted.")
    ] = {}
    timeout_s: Annotated[Positive, Meta(description="Seconds until a broker counts as not answering.")] = 10
