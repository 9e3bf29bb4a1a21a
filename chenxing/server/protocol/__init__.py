"""Requests as structs: one file per protocol."""
