"""Small web pages of this box's own: a server that is careful whom it answers, and what it shows."""
