"""Client metrics (KIP-714): subscriptions, the clients that push, and the pushed values."""
