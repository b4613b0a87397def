"""What the migrator costs, as ratios to a reference measured in the same run."""
