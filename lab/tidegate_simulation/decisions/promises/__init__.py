"""The promises of answers: models that know Kafka's rules, and neither rules nor folds."""
