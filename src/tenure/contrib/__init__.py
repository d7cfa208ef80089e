"""Tenure inside other people's programs: one file each, imported when it is used."""
