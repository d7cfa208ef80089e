"""What users hold for schedules: `Scheduler` and `AsyncScheduler`, and what runs behind them.

May be imported by `contrib`, `cli` and `testing`.
"""
