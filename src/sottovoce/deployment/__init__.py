"""Protocols between parties that hold their own data and trust each other only as far as stated."""
