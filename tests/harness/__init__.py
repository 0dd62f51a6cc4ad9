"""Runs pytest in one or several processes, watches them, and gathers what they report."""
