"""Tokens for OAUTHBEARER: from where and when a link gets them."""
