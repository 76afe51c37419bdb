"""Algorithms that IMPI 0.0 does not have: agreed on by clients that are all ours.

Tuned trees and pipelines, reductions whose bits do not depend on the procs, collectives of
intercommunicators and of neighbours.
"""
