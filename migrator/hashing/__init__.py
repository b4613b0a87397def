"""The operator's pod-template hash, bit for bit; pure functions only."""
