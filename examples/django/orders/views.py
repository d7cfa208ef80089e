import os

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from orders.models import Order
from orders.tasks import confirm
from tenure.contrib.django import scheduler


def index(request: HttpRequest) -> JsonResponse:
    told = {"running": scheduler.running, "leads": scheduler.is_leader, "pid": os.getpid()}
    return JsonResponse({**told, "confirmed": Order.objects.filter(confirmed=True).count()})


@csrf_exempt
def place_order(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        order = Order.objects.create(customer=request.POST["customer"])
        run = scheduler.enqueue(confirm, kwargs={"order": order.pk}, using="default")
        if request.POST["customer"] == "nobody":
            transaction.set_rollback(True)  # neither the order nor the run has ever been
    return JsonResponse({"order": order.pk, "run": run.id})
