"""The validation suite: launches that a card was measured with, and how simulated ones compare."""
