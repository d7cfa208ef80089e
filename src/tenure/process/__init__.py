"""What Tenure needs of the process and the machine: clocks, identity, threads, signals.

Knows the model and the errors; may be imported by everything above.
"""
