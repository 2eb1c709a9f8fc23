"""The lessons, as notebooks."""

from pathlib import Path

DIRECTORY = Path(__file__).parent
