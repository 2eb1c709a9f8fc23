"""Reports as files for other tools: each module makes one format; `Report.to_*` writes it whole or not at all."""
