"""What several backends have in common. Imported by backends, and by nobody else."""
