"""Approximate answers: samples of a statement's rows, and what may be said from them."""
