"""The questions: each as Tandem's definitions, as statements of Flink SQL, as a program of Spark, and over all events in DuckDB.

Answers are by advertisement and hour. Each is written as the system's documentation has it, exact where the system can be: Flink
counts by a column of the hour, since its window functions drop late events.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from tandem.bench.peers.contestants.flink import table_options
from tandem.bench.together.streams import ACTS, BIDS, CLICKS, SEEN, WINDOW_MS, WITHIN_MS

Name = Literal["rate", "cost", "cost-in-sql", "wait", "parts", "priced", "looked-up"]

_EVENT: Final = """\
class Act(Event):
    at: datetime
    kind: str
    ad: str
    user: int
    price: int
"""
_STARTS: Final = "epoch_ms(window_start)"
_FLINK_HOUR: Final = "UNIX_TIMESTAMP(CAST(FLOOR({}`at` TO HOUR) AS STRING)) * 1000"
_ACTS: Final = "(SELECT * FROM acts WHERE kind = '{}')"
_HOUR: Final = '"at" // 3600000 * 3600000'


@dataclass(frozen=True)
class TogetherQuestion:
    """A question about some topics, each the name of a kind of events and `suffix`.

    `flink` is the SELECT of (ad, w, measures) over tables of the kinds' names; None for a question that Tandem alone is asked.
    `sql` is the statement by which Tandem is asked. The first `counts` measures are numbers of events, 0 while none was read.
    """

    name: Name
    says: str
    topics: tuple[str, ...]
    measures: tuple[str, ...]
    tandem: str
    flink: str | None
    truth: str
    sql: str = f"SELECT ad, {_STARTS}, n, cost FROM answers"
    suffix: str = ""
    counts: int = 1

    @property
    def definitions(self) -> str:
        """The project of Tandem."""
        sources = "".join(
            f'{topic} = Source(topic="{topic}{self.suffix}", event=Act, event_time="at")\n' for topic in self.topics
        )
        return (
            "from datetime import datetime, timedelta\n\n"
            "from tandem import Event, Source, Table, View, count, derived, pairs, total, tumbling\n\n\n"
            f"{_EVENT}\n\n{sources}{self.tandem}"
        )

    def statements(self, output: str, options: Mapping[str, str]) -> list[str]:
        """Flink's statements, with options of its Kafka clients; of a question that Flink is asked."""
        reached = {f"properties.{name}": value for name, value in options.items()}
        columns = "kind STRING, ad STRING, `user` BIGINT, price BIGINT, `at` TIMESTAMP_LTZ(3), WATERMARK FOR `at` AS `at` - "
        tables = []
        for topic in self.topics:
            versions = topic == BIDS
            chosen = {"topic": topic + self.suffix, "properties.group.id": output, "value.format": "json"}
            chosen |= {"value.json.timestamp-format.standard": "ISO-8601"}
            chosen |= {"connector": "upsert-kafka", "key.format": "raw"} if versions else {"connector": "kafka"}
            chosen |= {} if versions else {"scan.startup.mode": "earliest-offset"}
            key = ", PRIMARY KEY (ad) NOT ENFORCED" if versions else ""
            tables.append(f"CREATE TABLE {topic} ({columns}INTERVAL '10' SECOND{key}){table_options(chosen | reached)}")
        sink = {"connector": "upsert-kafka", "topic": output, "key.format": "json", "value.format": "json"}
        measures = ", ".join(f"{name} BIGINT" for name in self.measures)
        tables.append(
            f"CREATE TABLE answers (ad STRING, w BIGINT, {measures}, PRIMARY KEY (ad, w) NOT ENFORCED)"
            f"{table_options(sink | reached)}"
        )
        return [*tables, f"INSERT INTO answers {self.flink}"]


RATE: Final = TogetherQuestion(
    name="rate",
    says="how often each advertisement was seen and clicked: two topics",
    sql=f"SELECT ad, {_STARTS}, shown, clicked FROM answers",
    topics=(SEEN, CLICKS),
    measures=("shown", "clicked"),
    counts=2,
    tandem="""\
answers = View(
    source=(seen, clicks),
    keys={"ad": "ad"},
    window=tumbling(hours=1),
    measures={"shown": count(of=seen), "clicked": count(of=clicks)},
)
""",
    flink="SELECT ad, w, SUM(s), SUM(c) FROM ("
    f"SELECT ad, {_FLINK_HOUR.format('')} AS w, 1 AS s, 0 AS c FROM seen UNION ALL "
    f"SELECT ad, {_FLINK_HOUR.format('')} AS w, 0 AS s, 1 AS c FROM clicks) GROUP BY ad, w",
    truth=f"SELECT ad, {_HOUR} AS w, count(*) FILTER (kind = 'seen'), count(*) FILTER (kind = 'click') FROM acts GROUP BY ALL",
)

_BID_OF: Final = 'bid_of = Table(bids, key={"ad": "ad"}, fields={"price": "price"})\n'
_OF_CLICKS: Final = """\
answers = View(
    source=clicks,{}
    keys={{"ad": "ad"}},
    window=tumbling(hours=1),
    measures={{"n": count(), "cost": total("{}")}},
)
"""
COST: Final = TogetherQuestion(
    name="cost",
    says="what clicks cost by the bid that stood at their time: a look-up",
    topics=(CLICKS, BIDS),
    measures=("n", "cost"),
    tandem=_BID_OF + _OF_CLICKS.format('\n    lookup={"b": bid_of.as_of(ad="ad")},', "b.price"),
    flink=f"SELECT c.ad, {_FLINK_HOUR.format('c.')}, COUNT(*), SUM(b.price) FROM clicks AS c "
    f"LEFT JOIN bids FOR SYSTEM_TIME AS OF c.`at` AS b ON c.ad = b.ad GROUP BY c.ad, {_FLINK_HOUR.format('c.')}",
    truth=f"SELECT c.ad, c.{_HOUR} AS w, count(*), sum(b.price) FROM clicks c ASOF LEFT JOIN "
    '(SELECT ad, "at", last(price) AS price FROM bids GROUP BY ALL) b ON c.ad = b.ad AND c."at" >= b."at" GROUP BY ALL',
)

COST_IN_SQL: Final = replace(
    COST,
    name="cost-in-sql",
    says="the same by a statement over clicks and versions of bids",
    tandem=_BID_OF + """clicked = View(source=clicks, keys={"ad": "ad", "at": '"at"'}, measures={"n": count()})\n""",
    flink=None,
    sql="SELECT c.ad, epoch_ms(date_trunc('hour', c.at)), sum(n)::BIGINT, sum(n * price)::BIGINT FROM clicked c "
    "ASOF LEFT JOIN bid_of_versions b ON c.ad = b.ad AND c.at >= b.valid_from GROUP BY ALL",
)

WAIT: Final = TogetherQuestion(
    name="wait",
    sql=f"SELECT ad, {_STARTS}, n FROM answers WHERE n > 0",
    says="how often a user clicked within ten minutes of seeing it, in one hour: pairs of events",
    topics=(ACTS,),
    measures=("n",),
    tandem="""\
answers = View(
    source=acts,
    keys={"ad": "ad"},
    window=tumbling(hours=1),
    measures={
        "p": pairs(left="kind = 'seen'", right="kind = 'click'", within=timedelta(minutes=10), by="user", limit=100_000),
        "n": derived("p.count"),
    },
)
""",
    flink=f"SELECT s.ad, {_FLINK_HOUR.format('s.')}, COUNT(*) FROM {_ACTS.format(SEEN)} AS s, {_ACTS.format('click')} AS c "
    "WHERE s.ad = c.ad AND s.`user` = c.`user` AND c.`at` BETWEEN s.`at` AND s.`at` + INTERVAL '10' MINUTE "
    f"AND FLOOR(s.`at` TO HOUR) = FLOOR(c.`at` TO HOUR) GROUP BY s.ad, {_FLINK_HOUR.format('s.')}",
    truth=f'SELECT s.ad, s.{_HOUR} AS w, count(*) FROM seen s JOIN clicks c ON s.ad = c.ad AND s."user" = c."user" '
    f'AND c."at" BETWEEN s."at" AND s."at" + {WITHIN_MS} AND s."at" // {WINDOW_MS} = c."at" // {WINDOW_MS} GROUP BY ALL',
)
QUESTIONS: Final = (RATE, COST, COST_IN_SQL, WAIT)

_ONE: Final = """\
{0} = View(source={1}, keys={{"ad": "ad"}}, window=tumbling(hours=1), measures={{"n": count()}})
"""
PARTS: Final = replace(
    RATE,
    name="parts",
    says="the same by a view of each topic",
    tandem=_ONE.format("of_seen", SEEN) + _ONE.format("of_clicks", CLICKS),
    flink=None,
    sql=f"SELECT ad, {_STARTS}, coalesce(s.n, 0), coalesce(c.n, 0) FROM of_seen s FULL JOIN of_clicks c USING (ad, window_start)",
)

LOOKED_UP: Final = replace(COST, name="looked-up", flink=None, suffix="_of_many")
PRICED: Final = replace(
    LOOKED_UP,
    name="priced",
    says="how many clicks there were, without a look-up, beside the same table",
    tandem=_BID_OF + _OF_CLICKS.format("", "price"),
    truth=f"SELECT ad, {_HOUR} AS w, count(*), sum(price) FROM clicks GROUP BY ALL",
)


@dataclass(frozen=True)
class FeatureCost:
    """What a feature costs: CPU seconds of a question as a multiple of those of another one, at most `aim`."""

    says: str
    question: TogetherQuestion
    beside: TogetherQuestion
    aim: float


COSTS: Final = (
    FeatureCost("a view over two sources, beside a view of each", RATE, PARTS, 1.0),
    FeatureCost("a look-up in 100,000 keys, beside the same view without it", LOOKED_UP, PRICED, 2.0),
)
