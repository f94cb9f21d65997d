"""What operators see and do: runs of commands, the pipeline, the state of each part. Commands run as child processes."""
