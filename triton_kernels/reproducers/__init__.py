"""Reproducers of findings: each runs alone, with nothing but Triton and no GPU, and prints what is wrong."""
