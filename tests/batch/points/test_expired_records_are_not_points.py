"""Windows of which records have expired give no features, and answers of them are not checked."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tandem.batch.points.check_answers import check_answers
from tandem.batch.points.points import points
from tandem.batch.points.spine import BadSpine, Spine
from tandem.ledger.logged_answers import LoggedAnswer
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.instant import microseconds
from tests.batch.maintain.test_records_expire import fill, maintain_tables
from tests.batch.shop import MemoryShop

START = datetime(2026, 3, 1, tzinfo=UTC)


def spine_of(times: list[datetime]) -> Spine:
    return Spine(pa.table({"shop": ["shop 1"] * len(times)}), np.array([microseconds(time) for time in times]))


def test_windows_of_which_records_have_expired_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = fill(MemoryShop.of(tmp_path, monkeypatch))
    times = [START + timedelta(hours=hour, minutes=59) for hour in range(12)]
    before = points(shop.run("points"), spine_of(times), {"per_hour": ("n",)}, knowledge="event").rows["per_hour__n"].to_pylist()
    (expiry,) = maintain_tables(shop)
    assert expiry.until is not None
    assert START + timedelta(hours=2) < expiry.until < START + timedelta(hours=3)
    after = points(shop.run("points"), spine_of(times[3:]), {"per_hour": ("n",)}, knowledge="event")
    assert after.rows["per_hour__n"].to_pylist() == before[3:]
    sentence = r"2 rows .* the first of them row 2 at 2026-03-01T02:59:00Z; the first window .* begins at 2026-03-01T03:00:00Z"
    with pytest.raises(BadSpine, match=sentence):
        points(shop.run("points"), spine_of([times[3], times[2], times[0]]), {"per_hour": ("n",)})
    mark, view = "2026-03-02T00:00:00Z", shop.project().views["per_hour"]
    answers = [
        LoggedAnswer(
            mark, "per_hour", {"shop": "shop 1"}, f"2026-03-01T0{hour}:00:00Z", None, "batch", 1, 1, True, fingerprint(view), {}
        )
        for hour in (2, 3)
    ]
    checked = check_answers(shop.run("points"), answers)
    assert checked.unchecked == {"of a window of which records have expired": 1}
    assert checked.checked == {"per_hour": 1}
