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
    replication: Annotated[Positive, Meta(description="Replicas of a topic that Tandem creates on an outside broker.")] = 1
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
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], Meta(description="Login mechanism, with a sasl_ security.")
    ] = "PLAIN"
    username: Annotated[str, Meta(description="User name for the login.")] = ""
    password: Annotated[str, Meta(description="Password for the login; prefer the variable TANDEM_KAFKA_PASSWORD.")] = ""
    ca_file: Annotated[str, Meta(description="PEM file of trusted certificate authorities; empty uses the system's.")] = ""
    timeout_s: Annotated[Positive, Meta(description="Seconds until a broker counts as not answering.")] = 10
