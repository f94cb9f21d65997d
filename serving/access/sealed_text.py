"""Encrypted texts that a client carries and cannot read: tokens of a stream of changes, for callers that may not see positions.

And keyed digests, which tell texts apart without revealing them.
"""

import hmac
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

_BYTES: Final = 32
_HEADER: Final = {"alg": "dir", "enc": "A256GCM"}
_BLOCK: Final = 256
_DIGITS: Final = 32
_BEFORE: Final = "sealed."


@dataclass(frozen=True)
class Seal:
    """Encrypts with a key in a file that only its owner may read. The first use creates it; all servers of a project share it.

    `random` returns this many unpredictable bytes. A text is padded before encryption, so its length reveals nothing.
    """

    file: Path
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
        with suppress(FileNotFoundError):
            return OctKey.import_key(self.file.read_bytes())
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = self.file.with_suffix(f".{os.getpid()}")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(self.random(_BYTES))
        # Of several servers the first one's key stays: a link never replaces a file.
        with suppress(FileExistsError):
            os.link(new, self.file)
        new.unlink()
        return OctKey.import_key(self.file.read_bytes())
