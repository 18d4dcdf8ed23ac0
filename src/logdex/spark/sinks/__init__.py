"""DataFrames and streams as input of logs: tasks stage rows as files, the driver appends each batch
once."""
