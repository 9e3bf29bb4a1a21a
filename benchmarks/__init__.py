"""Comparisons with llama.cpp, one file per question: python -m benchmarks --peer FOLDER."""
