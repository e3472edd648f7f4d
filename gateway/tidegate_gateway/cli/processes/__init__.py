"""`tidegate serve --processes N`: several gateways on one machine, under one supervisor."""
