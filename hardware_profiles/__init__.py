"""The GPUs that Tailwave knows: one TOML file each. SOURCES.md says what the sources are."""

from pathlib import Path

DIRECTORY = Path(__file__).parent  #: holds NAME.toml
