"""Language models behind one method: a real endpoint, or a script."""
