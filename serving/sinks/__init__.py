"""Sinks: a view's rows kept in a table or topic elsewhere, up to a token that is stored with them.

`changes_to_send.follow` sends what has changed since the token, and stores the next token in the same step:

==============  ====================================================  ====================================================
target          what is sent                                          where the token (`sink_token`) is stored
==============  ====================================================  ====================================================
Kafka           records by key and window, tombstones                 with the offset of the transaction (`kafka_topic`)
                (`log_messages`)
Delta           changed rows, and those that are gone                 in the metadata of the commit (`delta`)
PostgreSQL      the same                                              a row of `tandem_sink_tokens` (`postgres`)
webhook         messages, signed (`log_messages`, `posting`)          with the stored message, before it is sent (`outbox`)
==============  ====================================================  ====================================================
"""
