#!/usr/bin/env python
"""Django with a scheduler.

cd examples/django
python manage.py migrate
python manage.py runserver                # a node in the process that serves
python manage.py tenure run --reload      # more nodes, in processes of their own
gunicorn -w 4 shop.wsgi                   # a node in each worker: see gunicorn.conf.py
python manage.py tenure status            # who leads, what is due
python manage.py test
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)
