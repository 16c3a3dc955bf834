"""Runs a suite of hostile passes and honest look-alikes through the evaluation and compares verdicts."""
