"""The callers of the rules: each operation queues a proposal, and knows what its answer means."""
