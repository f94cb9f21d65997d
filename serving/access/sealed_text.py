"""Encrypted texts that a client carries and cannot read: tokens of a stream of changes, for callers that may not see positions.

And keyed digests, which tell texts apart without revealing them.
"""

import hmac
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unreadable

_BYTES: Final = 32
_HEADER: Final = {"alg": "dir", "enc": "A256GCM"}
_BLOCK: Final = 256
_DIGITS: Final = 32
_BEFORE: Final = "sealed."
KEY: Final = "control/seal.key"
"""The file of the key in the storage of tables."""


@dataclass(frozen=True)
class Seal:
    """Encrypts with a key that is beside the tables. The first use creates it; all servers of a project share it, on any machine.

    `random` returns this many unpredictable bytes. A text is padded before encryption, so its length reveals nothing. Methods
    raise Unreadable while the key cannot be read.
    """

    tables: Tables
    random: Callable[[int], bytes]

    def close(self, text: str) -> str:
        """The text, encrypted for the project's servers."""
        content = text.encode()
        padded = content + b" " * (-len(content) % _BLOCK)
        return _BEFORE + jwe.encrypt_compact(_HEADER, padded, self._key)

    def open(self, sealed: str) -> str | None:
        """Inverse of `close`; None for a text that no server of the project encrypted."""
        if not sealed.startswith(_BEFORE):
            return None
        with suppress(JoseError, ValueError, TypeError):
            found = jwe.decrypt_compact(sealed.removeprefix(_BEFORE), self._key, algorithms=list(_HEADER.values()))
            return (found.plaintext or b"").decode().rstrip(" ")
        return None

    def digest(self, content: bytes) -> str:
        """The same text for the same content; without the key it is impossible to test whether a content matches."""
        mac = self._mac.copy()
        mac.update(content)
        return mac.hexdigest()[:_DIGITS]

    @cached_property
    def _mac(self) -> hmac.HMAC:
        return hmac.new(self._key.raw_value, b"digest", "sha256")

    @cached_property
    def _key(self) -> OctKey:
        files = self.tables.storage()
        try:
            if files.head(KEY) is None:
                files.put_if_absent(KEY, self.random(_BYTES))  # of several servers the first one's key stays
            with files.open(KEY) as opened:
                content = opened.read()
        except OSError as error:
            raise Unreadable(f"cannot read the key {KEY} of the servers: {error.strerror or error}") from error
        if len(content) != _BYTES:
            raise Unreadable(
                f"the key {KEY} of the servers has {len(content)} bytes, expected {_BYTES}; restore it, or delete it: then "
                "sealed cursors and tokens of changes expire"
            )
        return OctKey.import_key(content)
