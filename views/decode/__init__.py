"""Decoders: from a record's bytes to an event of the source's type, or to a reject with a reason."""

from tandem.views.decode.decode_records import DecodedRecords, decode
from tandem.views.decode.value_parsers import parser
from tandem.views.source.fields.reasons import REASONS, Reason

__all__ = ["REASONS", "DecodedRecords", "Reason", "decode", "parser"]
