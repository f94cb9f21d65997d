"""Avro: values by the fields that an event type takes, straight from the bytes."""
