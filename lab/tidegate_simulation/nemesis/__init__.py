"""What befalls whole gateways, zones and logs in a run, and when."""
