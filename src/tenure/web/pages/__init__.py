"""One file for each page, each for a question of someone on call."""
