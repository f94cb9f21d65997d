"""`tandem serve`: answers and events over HTTP until it is stopped."""

import json
import os
import secrets
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from tandem.cli.command import signals
from tandem.cli.command.call import Call
from tandem.cli.command.command_log import part_log
from tandem.cli.run import part_processes
from tandem.infra import clock, folders
from tandem.infra.files import private_files
from tandem.infra.logs import telling
from tandem.infra.process import background
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.publish.publications import Publications
from tandem.serving.access import tokens
from tandem.serving.access.oidc import provider
from tandem.serving.access.rights import VERBS, Rights
from tandem.serving.http import listener
from tandem.serving.http.app import application
from tandem.serving.http.commands import TandemCommand
from tandem.serving.http.composition import of_project
from tandem.serving.http.listener import CannotServe, Tls
from tandem.serving.http.requests.answer_log import answer_log
from tandem.speed.hot.process import hot_process, why_not

_FIRST = "first"
_FIRST_DAYS = 365


def run(
    call: Call,
    *,
    host: Annotated[
        str, typer.Option(help="The address to listen on. An address that other machines can reach needs a certificate.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; 0 picks a free port. Default: serving.port.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate and its chain in PEM format.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's key in PEM format.")] = None,
) -> None:
    """Serve rows, look-ups, SQL, views, status and metrics over HTTP, and accept events, until Ctrl-C or SIGTERM.

    docs/serve.md describes the routes. Every route except /healthz and /readyz needs a token (`tandem token`) or a token of
    the identity provider in [serving.oidc]. The first start creates a token with all rights and prints the name of its file.
    With `--json` the command prints one line with the address when it is ready to answer.
    """
    settings = call.settings()
    if (tls_cert is None) != (tls_key is None):
        raise CannotServe("--tls-cert needs --tls-key, and --tls-key needs --tls-cert")
    tls = None if tls_cert is None or tls_key is None else Tls(tls_cert, tls_key)
    listener.check(tls)
    bound = listener.listening(host, settings.serving.port if port is None else port, tls=tls)
    try:
        address = listener.address_of(bound, tls=tls)
        with (
            telling.recorded(settings, "access", now=clock.now) as access,
            telling.recorded(settings, "audit", now=clock.now) as audit,
            answer_log(settings, now=clock.now) as answers,
            part_log(call, settings, part_processes.SERVER) as log,
            signals.stopping() as stop,
        ):
            tables = Tables.of(settings)
            Publications(tables).latest()  # a state of another format is refused before a journal is added to it
            if provider(settings.serving.oidc) is None and (first := first_token(settings.folder, tables)):
                log.info("created the first token with all rights; its secret is only in this file", file=str(first))

            def ready() -> None:
                log.info("serving", url=address)
                mine = background.running(settings.folder, part_processes.SERVER)
                if mine is not None and mine.pid == os.getpid():  # another server may have been started by hand, at another port
                    part_processes.announce(settings.folder, part_processes.SERVER, address=address)
                if call.json:
                    sys.stdout.write(json.dumps({"address": address, "pid": os.getpid()}) + "\n")
                    sys.stdout.flush()

            if (why := why_not(settings)) is not None:
                log.info("answers come from commits alone", reason=why)
            feed = HotFeed(time.monotonic) if why is None else None
            server = of_project(
                settings,
                tandem=_tandem_of(call),
                log=log,
                access=access,
                audit=audit,
                now=clock.now,
                clock=time.monotonic,
                feed=feed,
                answers=answers,
                exits_if_hung=True,
            )
            with hot_process(call.project, folders.child_environment(call.environ), feed, log.warning):
                listener.serve(application(server), bound, tls=tls, ready=ready, stop=stop)
    finally:
        part_processes.withdraw(settings.folder, part_processes.SERVER)
        bound.close()


def _tandem_of(call: Call) -> TandemCommand:
    """The command that runs for operators: the same interpreter and copy, whatever the PATH and the working folder are."""
    return TandemCommand([sys.executable, "-u", "-m", "tandem.cli"], call.project, folders.child_environment(call.environ))


def first_token(state: Path, tables: Tables) -> Path | None:
    """Create the first token, if these tables have never had one, and return the file of its secret; else None."""
    now = clock.now()
    if tokens.ever(tables):
        return None
    _, secret = tokens.create(
        tables, _FIRST, Rights.of(may=VERBS), expires=now + timedelta(days=_FIRST_DAYS), now=now, random=secrets.token_bytes
    )
    shown = private_files.folder(state / "access") / f"{_FIRST}.token"
    shown.unlink(missing_ok=True)
    with os.fdopen(os.open(shown, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(f"{secret}\n")
    return shown
