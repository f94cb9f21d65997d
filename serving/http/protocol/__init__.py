"""The vocabulary of HTTP: problems, media types, entity tags, cursors, parameters, strict JSON. Nothing here has state."""
