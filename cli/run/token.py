"""`tandem token`: make, list and revoke the access tokens of `tandem serve`."""

import secrets
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.text_tables import listing
from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.publications import Publications
from tandem.serving.access import tokens
from tandem.serving.access.rights import Rights
from tandem.serving.access.tokens import AccessToken
from tandem.views.errors import TandemError, listed


def run(
    call: Call,
    what: Annotated[Literal["create", "list", "revoke"], typer.Argument(metavar="create|list|revoke", help="What to do.")],
    name: Annotated[str | None, typer.Argument(help="The token's name; not for `list`.")] = None,
    *,
    may: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VERB",
            help="A right of the token: read, sql, release, ingest or admin; may be repeated. `create` needs at least one.",
        ),
    ] = None,
    view: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this view; may be repeated. Default: all views.")
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Only rows with this value of a key; NAME alone means NULL. Once per key."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="Number of days until the token expires.")] = 90,
) -> Output:
    """Create, list and revoke the tokens of `tandem serve`.

    A token's secret is printed once, when the token is created; the tables store only its hash. `--view` and `--row`
    narrow what the token allows: with `--row`, a view that lacks this key is not readable. A running server refuses a
    revoked token within 50 ms.
    """
    settings, now = call.settings(), clock.now()
    tables = Tables.of(settings)
    Publications(tables).latest()  # a state of another format is refused before a journal is added to it
    if what == "list":
        if name is not None or may or view or row:
            raise TandemError(
                "`tandem token list` lists all tokens; it does not accept NAME, --may, --view or --row", code="usage-invalid"
            )
        shown = [_document(token, now) for token in tokens.read(tables)]
        return Output({"tokens": shown}, listing([_row(one) for one in shown]) if shown else "no tokens")
    if name is None:
        raise TandemError(f"name the token: `tandem token {what} NAME`", code="usage-invalid")
    if what == "revoke":
        if may or view or row:
            raise TandemError("`tandem token revoke` accepts only a name, not --may, --view or --row", code="usage-invalid")
        gone = tokens.revoke(tables, name, now=now)
        return Output({"revoked": gone.name}, f"token {gone.name!r} is revoked")
    rights = Rights.of(may=may or (), views=view or (), rows=row or ())
    _refuse_what_shows_nothing(call, rights)
    made, secret = tokens.create(tables, name, rights, expires=now + timedelta(days=days), now=now, random=secrets.token_bytes)
    call.say("the secret is shown only once; send it as `Authorization: Bearer ...`")
    return Output({**_document(made, now), "secret": secret}, secret)


def _refuse_what_shows_nothing(call: Call, rights: Rights) -> None:
    """Refuse unknown views and keys now: otherwise only the holder of the token would notice a spelling mistake."""
    if rights.views is None and not rights.rows:
        return
    views = call.definitions().every_view
    for view in sorted(rights.views or ()):
        if view not in views:
            raise TandemError(f"no view {view!r}; views: {listed(view, views)}", code="view-unknown")
    if all(rights.bound(view) is None for view in views.values()):
        keys = "; ".join(f"{name}: {', '.join(view.keys) or 'none'}" for name, view in views.items())
        raise TandemError(
            f"no view has the keys {', '.join(rights.rows)} of --row; keys by view: {keys}", code="selection-invalid"
        )


def _document(token: AccessToken, now: datetime) -> dict[str, Any]:
    return {
        "name": token.name,
        **token.rights.to_json(),
        "made": _time(token.made),
        "expires": _time(token.expires),
        "expired": token.expires <= now,
    }


def _row(document: dict[str, Any]) -> dict[str, Any]:
    return {
        "token": document["name"],
        "may": ", ".join(document["may"]),
        "views": "all" if document["views"] is None else ", ".join(document["views"]),
        "rows": ", ".join(document["rows"]) or "all",
        "expires": "expired" if document["expired"] else document["expires"],
    }


def _time(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
