"""What is stored where: positions, Delta tables and conditional commits, locks, releases, publications.

No Spark and no Kafka. Pure decisions (`tiling`, `cut_decision.choose`, `compaction.plan`) are separate from the thin modules that
read and commit Delta tables through delta-rs.
"""
