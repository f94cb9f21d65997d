from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.values import Positive


class LineageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[lineage]`: OpenLineage events about archive, recompute and the speed layer; none unless `url` or `file` is set."""

    url: Annotated[
        str, Meta(description="Address of an OpenLineage server, such as http://127.0.0.1:5000; empty turns sending off.")
    ] = ""
    token: Annotated[str, Meta(description="Bearer token for the server; prefer the variable TANDEM_LINEAGE_TOKEN.")] = ""
    file: Annotated[
        str, Meta(description="File for lineage events, one per line, relative to the state folder; empty turns it off.")
    ] = ""
    namespace: Annotated[str, Meta(min_length=1, description="Namespace of the project's jobs; use one name per project.")] = (
        "tandem"
    )
    timeout_s: Annotated[
        Positive, Meta(description="Maximum seconds that a run waits at its end for the delivery of events.")
    ] = 5
    every_s: Annotated[Positive, Meta(description="Seconds between two events of a running speed layer.")] = 60
