import os

from django.core.wsgi import get_wsgi_application

from tenure.contrib.django import start_with_runserver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
application = get_wsgi_application()
start_with_runserver()  # under gunicorn this does nothing: see gunicorn.conf.py
