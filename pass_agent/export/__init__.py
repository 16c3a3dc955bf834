"""Training data from trajectories."""
