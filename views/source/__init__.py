"""Sources: event types, decoders, identity, order of the log, watermark. Nothing here depends on views."""
