"""Benchmarks: suites, runs, results with provenance."""
