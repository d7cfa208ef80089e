"""Tenure inside other people's programs: one file each, imported when it is used.

May be imported by users, and by `cli`.
"""
