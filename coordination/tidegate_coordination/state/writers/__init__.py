"""The writers of the log: live gateways, their claims and settings, and answers for them."""
