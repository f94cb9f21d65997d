"""Decoders: from a record's bytes to an event of the source's type, or to a reject with a reason."""

from views.decode.fields.reasons import REASONS, Reason
from views.decode.records import PARSERS, Decoded, decode, parser

__all__ = ["PARSERS", "REASONS", "Decoded", "Reason", "decode", "parser"]
