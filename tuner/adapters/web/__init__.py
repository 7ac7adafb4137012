"""HTTP server for the pages of studies, with access checks."""
