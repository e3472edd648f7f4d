"""Authentication of clients, their rights, and the types that guards share.

A guard checks an API's requests against the client's rights.
"""
