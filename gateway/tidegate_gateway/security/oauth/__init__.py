"""OAUTHBEARER: tokens of an identity provider, checked with the keys that it publishes."""
