from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Positive


class OidcSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[serving.oidc]`: an identity provider whose tokens are accepted besides the project's own; none without an issuer."""

    issuer: Annotated[str, Meta(description="Accepted `iss` of tokens; empty accepts none.")] = ""
    audience: Annotated[str, Meta(description="Required `aud` of tokens.")] = ""
    keys: Annotated[
        str, Meta(description="Address of the provider's JWK set, https or on loopback. The server contacts no other address.")
    ] = ""
    algorithm: Annotated[
        Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"],
        Meta(description="The only accepted signature algorithm."),
    ] = "RS256"
    typ: Annotated[
        str,
        Meta(
            description="Accepted header types (`typ`), separated by commas; `none` accepts a header without one, `at+jwt` is "
            "RFC 9068."
        ),
    ] = "at+jwt,JWT,none"
    refresh_s: Annotated[
        Positive, Meta(description="Seconds after which the keys are fetched again; a withdrawn key is refused by then.")
    ] = 300
    stale_s: Annotated[
        Positive, Meta(description="Seconds after which cached keys expire while the address does not answer; then 503.")
    ] = 3600
    leeway_s: Annotated[
        int, Meta(ge=0, le=300, description="Tolerated clock difference in seconds, for expiry and not-before.")
    ] = 30
    claim: Annotated[str, Meta(description="The claim that determines rights: a text or a list of texts.")] = "groups"
    rights: Annotated[
        dict[str, tuple[str, ...]],
        Meta(
            description="Rights by value of the claim: a list of verbs, `view:NAME` and `row:NAME=VALUE`. The first matching "
            "value counts."
        ),
    ] = {}
