"""Export an archive, import it into another installation, and replay it into a topic. Needs no Spark."""
