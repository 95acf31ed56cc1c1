"""The tests, in folders as the package's own; what they share is imported as ``tests.fixtures``."""
