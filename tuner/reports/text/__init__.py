"""Tables, paragraphs and cells in every format, escaped."""
