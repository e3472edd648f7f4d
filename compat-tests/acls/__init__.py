"""Every API in every version, asked by clients with all kinds of rights, here and at Kafka."""
