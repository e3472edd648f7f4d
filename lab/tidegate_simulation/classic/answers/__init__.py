"""The requests that a model broker answers, an API or a few in each module."""
