"""`tandem bench peers`: the same view of the same events by Tandem and by its peers (docs/peers.md)."""
