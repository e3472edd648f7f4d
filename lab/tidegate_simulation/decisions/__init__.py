"""The second tier of the simulator: proposals, rules and folds, without tasks, network or store."""
