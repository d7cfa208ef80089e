"""One: `manage.py tenure`."""
