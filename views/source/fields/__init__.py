"""From parsed values to the fields of an event type, and the closed set of reasons for a reject."""
