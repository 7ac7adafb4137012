"""Tables, paragraphs and terminal cells, escaped for each format."""
