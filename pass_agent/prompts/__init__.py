"""The text that a task starts with."""
