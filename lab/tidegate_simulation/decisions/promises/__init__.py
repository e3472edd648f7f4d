"""The promises of answers: models that know Kafka's rules, but not our rules and folds."""
