"""The coordinator of a gateway: proposals in, entries appended, answers out."""
