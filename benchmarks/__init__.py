"""Benchmarks of Telesto."""
