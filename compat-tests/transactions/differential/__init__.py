"""Random scripts of transactions, played on Apache Kafka and on a gateway; see run.py."""
