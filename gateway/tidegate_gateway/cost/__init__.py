"""The cost of a gateway's requests: sums by topic and client, their money, and advice."""
