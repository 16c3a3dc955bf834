"""Evaluates lists of samples: many graphs, many devices, resumable."""
