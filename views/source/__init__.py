"""What a source says of its log: event types, decoders' names, identity, order, watermark. No view is known here."""
