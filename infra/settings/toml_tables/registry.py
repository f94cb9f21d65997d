from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Positive


class RegistrySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[registry]`: how schemas are fetched from the registries that decoders name."""

    url: Annotated[
        str,
        Meta(description="Address that is asked in place of those in definitions, such as a test registry's; empty asks those."),
    ] = ""
    username: Annotated[str, Meta(description="User name, or API key, for the login.")] = ""
    password: Annotated[str, Meta(description="Password, or API secret; prefer the variable TANDEM_REGISTRY_PASSWORD.")] = ""
    token: Annotated[str, Meta(description="Bearer token in place of a login; prefer the variable TANDEM_REGISTRY_TOKEN.")] = ""
    ca_file: Annotated[str, Meta(description="PEM file of trusted certificate authorities; empty uses the system's.")] = ""
    max_unknown_ids: Annotated[
        Positive, Meta(description="Ids that a registry does not have and that are stored: further ones hold their source.")
    ] = 10_000
    timeout_s: Annotated[Positive, Meta(description="Seconds until a registry counts as not answering.")] = 10
