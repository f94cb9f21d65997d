"""HTTP's own words: problems, media types, entity tags, cursors, parameters, strict JSON. No state and no view is kept here."""
