"""The definitions on events few enough to count by hand; runs without Java or Kafka."""

from datetime import UTC, datetime
from decimal import Decimal

from definitions import Action, Impression, ad_hours, campaign_days, journeys, last_purchase

from tandem.testing import answer


def shown(number: int, *, minute: int = 0, ad: str = "spring-1", cost: str = "0.0100") -> Impression:
    at = datetime(2026, 11, 1, 8, minute, tzinfo=UTC)
    return Impression(impression_id=f"i{number}", at=at, ad=ad, user="ann", cost=Decimal(cost))


def action(number: int, *, minute: int = 0, ad: str = "spring-1", user: str = "ann", amount: str | None = None) -> Action:
    at = datetime(2026, 11, 1, 8, minute, tzinfo=UTC)
    kind, paid = ("click", None) if amount is None else ("buy", Decimal(amount))
    return Action(action_id=f"a{number}", at=at, ad=ad, user=user, kind=kind, amount=paid)


def test_a_row_has_what_either_source_has() -> None:
    rows = answer(ad_hours, [shown(1), shown(2), shown(2), action(1, amount="9.50"), action(2), action(3, ad="spring-2")])
    assert [(row["ad"], row["shown"], row["cost"], row["clicks"], row["sold"], row["click_rate"]) for row in rows] == [
        ("spring-1", 2, "0.0200", 1, "9.50", 0.5),
        ("spring-2", 0, None, 1, None, None),
    ]


def test_a_campaign_unites_its_advertisements() -> None:
    (row,) = answer(campaign_days, [shown(1), shown(2, ad="spring-2", minute=59), action(1, ad="spring-2")])
    assert (row["campaign"], row["shown"], row["clicks"], row["click_rate"]) == ("spring", 2, 1, 0.5)


def test_a_late_click_takes_its_place_in_a_journey() -> None:
    early = [action(1), action(2, minute=1), action(3, minute=20, amount="5.00"), action(4, user="bob", minute=3)]
    (row,) = answer(journeys, early)
    assert (row["users"], row["bought"], row["hesitant"], row["mean_wait"]) == ([2, 1], 0.5, 0, 1170.0)
    (row,) = answer(journeys, [*early, action(5, minute=2)])
    assert (row["hesitant"], row["purchases"]["count"]) == (1, 3)


def test_the_last_purchase_is_the_latest_by_its_own_time() -> None:
    late = [action(1, minute=9, amount="2.00"), action(2, minute=3, amount="1.00"), action(3, minute=30)]
    (row,) = answer(last_purchase, late)
    assert (row["user"], row["at"], row["amount"]) == ("ann", "2026-11-01T08:09:00Z", "2.00")
