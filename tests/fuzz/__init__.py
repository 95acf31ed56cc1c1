"""What is made to break jaxlaw: tables, conditions, containers, calls, command lines, files.

A part of each is tried by the tests, with fixed seeds; ``benchmarks/robustness.py`` tries the
tables, calls and files ten thousand times over.
"""
