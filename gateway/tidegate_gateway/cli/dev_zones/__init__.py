"""Several gateways on one machine, each in its own zone: `tidegate dev --zones 3`."""
