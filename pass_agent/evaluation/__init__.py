"""Pass sets, evaluations of them, and what came out."""
