"""Benchmarks: the cost of the same answers in Tandem and elsewhere."""
