"""Probes of the expressibility matrix: one small kernel each, compiled and read, never launched.

A probe runs alone, with nothing but Triton installed and no GPU: `python swizzle_box.py` prints what it shows. It
offers FORMS, the names of its variants, and `build(form)`, which returns what triton.compile made of one.
"""
