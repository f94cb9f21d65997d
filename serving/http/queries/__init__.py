"""A request for rows, in steps: `ask`, `parse`, `respond`; and what the routes of views and sources share."""
