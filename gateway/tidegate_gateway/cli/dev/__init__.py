"""`tidegate dev`: runs a gateway, and a pipeline if wanted, without any setup."""
