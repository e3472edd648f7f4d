"""Strangers that connect to every listener of a gateway, and those whom they must not keep out."""
