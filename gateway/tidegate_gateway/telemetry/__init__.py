"""Client metrics (KIP-714): subscriptions, the clients that push, and what the page shows of it."""
