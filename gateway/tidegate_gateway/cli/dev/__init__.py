"""`tidegate dev`: a gateway, and a pipeline if wanted, with nothing to set up."""
