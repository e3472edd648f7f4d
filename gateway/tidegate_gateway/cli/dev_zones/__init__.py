"""Several gateways on one machine, a zone each: `tidegate dev --zones 3`."""
