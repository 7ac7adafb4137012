"""Whether a box is fit to be measured on: what was seen of it, and what each thing does to the answer."""
