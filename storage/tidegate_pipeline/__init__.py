"""The data pipeline: WAL objects become segments of one partition each."""
