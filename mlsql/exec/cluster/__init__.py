"""Shares over several workers: cut into pieces, given out by measured speed, merged in order."""
