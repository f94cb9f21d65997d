"""An HTTP receiver of messages as the target of a sink."""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from tandem.views.errors import DefinitionError
from tandem.views.sinks.sink import SinkTarget
from tandem.views.source.formats.schema_registry import address_fault

_VARIABLE: Final = re.compile(r"\$[^\W\d]\w*", re.ASCII)


@dataclass(frozen=True)
class SinkWebhook(SinkTarget):
    """The receiver of a sink's messages: its address, or the variable that has it, and the variable of its secret."""

    outputs: ClassVar[tuple[str, ...]] = ("update", "append", "changes")

    address: str
    secret: str

    def __str__(self) -> str:
        return f"webhook({self.address!r}, secret={self.secret!r})"


def webhook(address: str, *, secret: str = "$WEBHOOK_SECRET") -> SinkWebhook:  # noqa: S107 - a variable
    """An HTTP receiver as the target of a sink: a signed POST for each message about a row, at least once, in order.

    * `address`: `https://...`, or `"$NAME"` of a variable of the environment that has it, for an address with a token.
    * `secret`: `"$NAME"` of the variable with the secret that signs each request by HMAC-SHA256.
    """
    if not isinstance(address, str) or not address.strip():
        raise DefinitionError(
            f"webhook({address!r}): expected an address such as 'https://example.org/rows', or '$NAME' of a variable"
        )
    if not isinstance(secret, str) or not _VARIABLE.fullmatch(secret):
        raise DefinitionError("webhook: secret is not '$NAME' of a variable; a definition has no secret")
    if not _VARIABLE.fullmatch(address):
        if "@" in address:
            raise DefinitionError("webhook: the address has a login; give the address as a variable: webhook('$NAME')")
        if fault := address_fault(address):
            raise DefinitionError(f"webhook: {fault}, or '$NAME' of a variable")
    return SinkWebhook(address, secret)
