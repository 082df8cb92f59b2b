"""Django: django-ratelimit and Django REST framework's throttles on Django's own Redis cache backend.

The libraries are as published; only the clock that they read is a test's, so that windows pass without waiting. What
the servers expire by their own clocks is compared as the time left.
"""

import random
from types import SimpleNamespace

import django.core.cache
import django_ratelimit.core
import pytest
import redis
from django.conf import settings
from django.http import HttpResponse
from django.test import RequestFactory, override_settings
from django.test.signals import clear_cache_handlers  # noqa: F401  (connects the caches to override_settings)

if not settings.configured:
    settings.configure(ALLOWED_HOSTS=["*"], DEFAULT_CHARSET="utf-8")

from django_ratelimit import ALL  # noqa: E402
from django_ratelimit.core import get_usage  # noqa: E402
from django_ratelimit.decorators import ratelimit  # noqa: E402
from rest_framework.throttling import SimpleRateThrottle  # noqa: E402

T = 1_751_540_400
ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


class Clock:
    """Stands for the module `time` inside a library."""

    def __init__(self) -> None:
        self.now = float(T)

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(django_ratelimit.core, "time", moved)
    return moved


def cache_on(port: int):
    """Settings under which Django's default cache is the server at `port`."""
    backend = "django.core.cache.backends.redis.RedisCache"
    return override_settings(CACHES={"default": {"BACKEND": backend, "LOCATION": f"redis://127.0.0.1:{port}"}})


def request_from(address: str, method: str = "GET"):
    return getattr(RequestFactory(), method.lower())("/", REMOTE_ADDR=address)


@pytest.mark.smoke
def test_the_decorator(pair, clock):
    @ratelimit(key="ip", rate="3/m", block=False)
    def view(request):
        return HttpResponse(status=429 if request.limited else 200)

    def run(port: int) -> list[int]:
        with cache_on(port):
            clock.now = T
            statuses = [view(request_from(ADDRESSES[0])).status_code for _ in range(5)]
            statuses += [view(request_from(ADDRESSES[1])).status_code]
            clock.now += 60
            return statuses + [view(request_from(ADDRESSES[0])).status_code]

    assert pair.same(run) == [200, 200, 200, 429, 429, 200, 200]


@pytest.mark.parametrize("seed", range(3))
def test_a_random_history(pair, clock, seed):
    """Several groups, rates, methods and callers, looking and counting, over some minutes of moved time."""

    def run(port: int) -> list:
        rng = random.Random(seed)
        clock.now = T
        decided = []
        with cache_on(port):
            for _ in range(120):
                clock.now += rng.choice([0, 0, 1, 7, 40])
                usage = get_usage(
                    request_from(rng.choice(ADDRESSES), rng.choice(["GET", "POST"])),
                    group=rng.choice("ab"),
                    key="ip",
                    rate=rng.choice(["3/s", "5/m", "4/10s", "0/m"]),
                    method=rng.choice([ALL, "POST", ["GET", "POST"]]),
                    increment=rng.random() < 0.8,
                )
                decided.append(usage and (usage["count"], usage["limit"], usage["should_limit"], usage["time_left"]))
        return decided

    decided = pair.same(run)
    assert {usage[2] for usage in decided if usage} == {True, False}


def test_its_keys_live_as_long(pair, clock):
    """The cache's key outlives the window by five seconds, by the server's clock."""

    def run(port: int) -> list[int]:
        with cache_on(port), redis.Redis(port=port) as client:
            clock.now = T
            get_usage(request_from(ADDRESSES[0]), group="a", key="ip", rate="5/m", increment=True)
            return [round(client.ttl(key), -1) for key in client.scan_iter()]

    assert pair.same(run) == [60]


def test_rest_framework_throttles(pair):
    """They keep a list of times in one value, and so go through GET and SET with bytes."""
    now = [float(T)]

    class Throttle(SimpleRateThrottle):
        rate = "3/min"
        timer = staticmethod(lambda: now[0])

        def get_cache_key(self, request, view):
            return f"throttle:{view}:{request.ident}"

    def run(port: int) -> list:
        rng = random.Random(7)
        now[0] = float(T)
        decided = []
        with cache_on(port):
            for _ in range(60):
                now[0] += rng.choice([0, 3.5, 11, 25.25])
                throttle = Throttle()
                allowed = throttle.allow_request(SimpleNamespace(ident=rng.choice(ADDRESSES)), rng.choice("ab"))
                decided.append((allowed, throttle.wait()))
        return decided

    assert {allowed for allowed, _ in pair.same(run)} == {True, False}


def test_the_cache_itself(pair):
    """Every method of the cache that reaches the server, the batches of set_many in one transaction."""

    def run(port: int) -> list:
        with cache_on(port):
            cache = django.core.cache.cache
            many = {f"many:{number}": number for number in range(20)}
            return [
                cache.add("a", 1, 60),
                cache.add("a", 2, 60),
                cache.incr("a", 41),
                cache.decr("a"),
                cache.get("a"),
                cache.get("nothing", "default"),
                cache.set("text", {"a": [1, 2.5, "é"]}, 60),
                cache.get("text"),
                cache.touch("a", 120),
                cache.touch("nothing", 120),
                cache.touch("a", None),
                cache.has_key("a"),
                cache.set("zero", 1, 0),
                cache.get("zero"),
                cache.get_or_set("made", lambda: 5, 60),
                cache.incr_version("a"),
                cache.get("a", version=2),
                cache.set_many(many, 60),
                cache.get_many([*many, "nothing"]),
                cache.delete_many(many),
                cache.get_many(many),
                cache.delete("text"),
                cache.delete("text"),
                cache.clear(),
                cache.get("a"),
            ]

    decided = pair.same(run)
    assert decided[:6] == [True, False, 42, 41, 41, "default"]


def test_incr_of_a_missing_key_says_so(pair):
    def run(port: int) -> str:
        with cache_on(port), pytest.raises(ValueError) as caught:
            django.core.cache.cache.incr("nothing")
        return str(caught.value)

    assert "not found" in pair.same(run)
