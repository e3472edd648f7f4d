"""Transactions in the cluster state and in what readers of committed records get."""
