"""Answers over HTTP: `tandem serve`. One file per resource in `routes`; `app` puts them together."""
