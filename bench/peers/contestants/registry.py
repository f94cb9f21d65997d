"""All contestants, in the order in which they are printed."""

from typing import Final

from tandem.bench.peers.contestant import Contestant
from tandem.bench.peers.contestants.flink import FLINK
from tandem.bench.peers.contestants.kafka_streams import AT_LEAST_ONCE, EXACTLY_ONCE
from tandem.bench.peers.contestants.pathway import PATHWAY
from tandem.bench.peers.contestants.spark import SPARK
from tandem.bench.peers.contestants.tandem import TANDEM
from tandem.bench.peers.contestants.tandem_served import SERVED
from tandem.bench.peers.contestants.tandem_sink import TANDEM_SINK

STREAMING: Final[tuple[Contestant, ...]] = (TANDEM, AT_LEAST_ONCE, EXACTLY_ONCE, FLINK, PATHWAY, SPARK)
FRESH: Final[tuple[Contestant, ...]] = (*STREAMING, *SERVED)
"""Those whose freshness is measured: besides the same, Tandem's server, by commits and with the hot tail."""
SINKS: Final[tuple[Contestant, ...]] = (TANDEM, TANDEM_SINK, EXACTLY_ONCE, FLINK)
"""Tandem without a sink and with one, and the peers that keep a topic of last values."""
