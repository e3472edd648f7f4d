"""What a gateway's requests cost: sums by topic and client, their money, and advice."""
