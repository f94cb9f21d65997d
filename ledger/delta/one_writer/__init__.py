"""Who writes which table, and what stops every other writer (docs/design/one-writer.md).

========================================  =============================================  ===================================
tables                                    their one writer at a time                     what stops another
========================================  =============================================  ===================================
archive, events, quarantine, batch views  the batch command (`tandem.batch`) that holds  `write_locks` on a machine, on an
                                          their lock                                     object store `write_leases`, and
                                                                                         `refuse_other_writers`
realtime tables of a release              the process that claimed the newest epoch      `tandem.ledger.realtime_writer`
journals: publications, releases, runs    any command, which adds the next number        the number: a conditional commit
========================================  =============================================  ===================================
"""
