"""What nginx logs of some variables, in lines and in JSON."""

import re
from datetime import datetime
from decimal import Decimal
from typing import Final

from tandem.views.instant import time_of
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.text_values import Read
from tandem.views.source.fields.time_reader import iso_time
from tandem.views.source.formats.access_logs.clf_time import CLF_TIME, clf_time

EMPTY: Final = ("", "-")
"""A variable without a value, in JSON and in lines."""
NO_STATUS: Final = "000"
"""The status of a request that nginx has not answered."""

_CLF_TIME: Final = re.compile(CLF_TIME, re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]{1,11}(?:\.[0-9]{1,9})?", re.ASCII)


def _iso8601(text: str) -> datetime:
    try:
        return iso_time(text)
    except Reject as reject:
        raise Reject(reject.reason, f"time_iso8601 {text[:40]!r}: {reject.detail}") from reject


def _local(text: str) -> datetime:
    if not _CLF_TIME.fullmatch(text):
        raise Reject("invalid_value", f"time_local {text[:40]!r} is not like 17/May/2015:10:05:03 +0000")
    return clf_time(text)


def _msec(text: str) -> datetime:
    if not _SECONDS.fullmatch(text):
        raise Reject("invalid_value", f"msec {text[:40]!r} is not seconds since 1970")
    return time_of(int(Decimal(text).scaleb(6)))


TIMES: Final[dict[str, Read]] = {"time_iso8601": _iso8601, "time_local": _local, "msec": _msec}
