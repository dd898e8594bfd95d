"""Other runtimes for the networks of loaded models: the same weights, the same answers, faster."""
