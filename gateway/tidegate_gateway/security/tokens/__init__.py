"""Delegation tokens (KIP-48): their secrets, and logins by them."""
