"""Executors: each carries decisions out on one kind of machine or engine, and is an optional extra."""
