from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tandem.infra.settings.toml_tables.oidc import OidcSettings
from tandem.infra.settings.values import Count, Port, Positive


class ServingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[serving]`: answers over HTTP."""

    port: Annotated[Port, Meta(description="Port of `tandem serve`; 0 picks a free port.")] = 8640
    poll_ms: Annotated[
        Positive,
        Meta(
            description="Milliseconds between two polls for new commits and publications. While hot tails answer every view, "
            "polls are at least 250 ms apart. While answers count the whole log, an object store is polled every 5 seconds, or "
            "every `poll_ms` if that is longer. Sinks and alerts poll every 200 ms, or every `poll_ms` if that is longer."
        ),
    ] = 50
    rate: Annotated[
        Positive,
        Meta(
            description="Sustained requests per second of one token. The default is about what a server answers on one core, so "
            "a token alone can use the server, and a program in a loop cannot demand more."
        ),
    ] = 4000
    burst: Annotated[Positive, Meta(description="Burst of requests of one token; by default those of two seconds.")] = 8000
    failed_logins: Annotated[
        Positive, Meta(description="Invalid tokens per minute from one address; beyond it the answer is 429.")
    ] = 60
    concurrent: Annotated[
        Positive,
        Meta(description="Concurrent requests of one token, including streams and unread responses."),
    ] = 64
    streams: Annotated[Positive, Meta(description="Open streams of changes, of all tokens together.")] = 200
    concurrent_streams: Annotated[Positive, Meta(description="Open streams of changes of one token.")] = 32
    statements: Annotated[Positive, Meta(description="Concurrent SQL statements; one token may use all but one of them.")] = 4
    unread_mb: Annotated[
        Positive,
        Meta(
            description="Megabytes of responses that clients have not read yet; one token may use at most as much as is still "
            "free."
        ),
    ] = 256
    connections: Annotated[Positive, Meta(description="Open connections, of all addresses together.")] = 2000
    connections_per_address: Annotated[
        Positive, Meta(description="Open connections of one address (IPv6: a /64); a proxy is one address.")
    ] = 256
    head_s: Annotated[Positive, Meta(description="Seconds within which the head of a request must arrive.")] = 10
    keep_alive_s: Annotated[Positive, Meta(description="Seconds that an idle connection may wait for its next request.")] = 5
    least_bytes_s: Annotated[
        Positive,
        Meta(
            description="Minimum average rate, in bytes per second, at which a request's body must arrive and a response must "
            "be read."
        ),
    ] = 1024
    grace_s: Annotated[Positive, Meta(description="Seconds of a body or response before this rate applies.")] = 5
    max_rows: Annotated[
        Positive, Meta(description="Maximum number of rows of one response, keys of one lookup and records of one request.")
    ] = 10_000
    body_kb: Annotated[Positive, Meta(description="Maximum body of a request, in kilobytes.")] = 1024
    ingest_mb: Annotated[
        Positive,
        Meta(
            description="Maximum megabytes of received events that are not acknowledged yet, of all tokens together; one token "
            "may use at most half of them."
        ),
    ] = 64
    response_mb: Annotated[Positive, Meta(description="Maximum response before compression, in megabytes.")] = 64
    wait_s: Annotated[Positive, Meta(description="Maximum seconds that a request waits for the freshness it asks for.")] = 10
    timeout_s: Annotated[Positive, Meta(description="Maximum duration of a request, in seconds.")] = 30
    stale_s: Annotated[
        Count,
        Meta(description="Seconds for which broker or speed layer may be dead, stuck or given up before `/readyz` answers 503."),
    ] = 5
    held_mb: Annotated[
        Positive, Meta(description="Megabytes of cached answers, so that pages and repetitions stay on their snapshot.")
    ] = 256
    memory_mb: Annotated[
        Positive,
        Meta(
            description="Megabytes of views cached in memory, in `tandem serve` and in `connect`. Other views are read from "
            "their files; what was read stays cached, up to an eighth of this."
        ),
    ] = 1024
    hot: Annotated[
        Literal["auto", "on", "off"],
        Meta(
            description="Whether `tandem serve`, and sinks to topics and PostgreSQL, have the log's newest records before they "
            "are committed; each then runs a process that folds them, with the project's code. `auto`: if the speed layer, which "
            "runs that code too, has run on this machine from this state folder."
        ),
    ] = "auto"
    hot_mb: Annotated[
        Positive,
        Meta(description="Maximum megabytes of a source's hot records; beyond it answers wait for the next commit."),
    ] = 256
    log_answers: Annotated[
        bool,
        Meta(
            description="Whether `tandem serve` logs the rows that it answers to look-ups, for `tandem points --check`: key, "
            "measures and positions of each, in `logs/answers.log` within the bounds of `[logs]`."
        ),
    ] = False
    oidc: OidcSettings = OidcSettings()
