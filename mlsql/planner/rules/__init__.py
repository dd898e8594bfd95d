"""The rules: each a function of one stage, in a file of its name."""
