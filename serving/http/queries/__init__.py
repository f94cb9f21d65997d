"""From a request's parameters to a response: what the routes that read rows, views and sources share."""
