"""redis-py 8 with ordinary commands: blocking and asyncio, RESP2 and RESP3, transactions, pools, lost connections."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import redis.asyncio
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from server.wire import eventually

# Deprecated in favour of SET's options, and in use everywhere.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")

ALL_BYTES = bytes(range(256))
# The clock starts there, and every common window begins there too.
START = 1_577_836_800


@pytest.fixture
def client(server, protocol):
    with redis.Redis(port=server.port, protocol=protocol) as connected:
        connected.flushall()
        yield connected


# Method, arguments and what redis-py makes of the reply. The keys stay for the next step.
STEPS = [
    ("set", ["k", "one"], {}, True),
    ("get", ["k"], {}, b"one"),
    ("set", ["k", "two"], {"nx": True}, None),
    ("set", ["k", "two"], {"xx": True, "get": True}, b"one"),
    ("set", ["k", ALL_BYTES], {"ex": 100}, True),
    ("get", ["k"], {}, ALL_BYTES),
    ("ttl", ["k"], {}, 100),
    ("strlen", ["k"], {}, 256),
    ("expire", ["k", 200], {"nx": True}, False),
    ("expire", ["k", 200], {"gt": True}, True),
    ("pttl", ["k"], {}, 200_000),
    ("expiretime", ["k"], {}, START + 200),
    ("persist", ["k"], {}, True),
    ("ttl", ["k"], {}, -1),
    ("ttl", ["nobody"], {}, -2),
    ("mset", [{"a": 1, "b": 2, "c": "three"}], {}, True),
    ("mget", [["a", "nobody", "c"]], {}, [b"1", None, b"three"]),
    ("incr", ["a"], {}, 2),
    ("incrby", ["a", 40], {}, 42),
    ("decrby", ["a", 50], {}, -8),
    ("incrbyfloat", ["f", 1.5], {}, 1.5),
    ("incrbyfloat", ["f", 0.25], {}, 1.75),
    ("append", ["c", "!"], {}, 6),
    ("getset", ["b", "3"], {}, b"2"),
    ("getex", ["b"], {"px": 1500}, b"3"),
    ("pttl", ["b"], {}, 1500),
    ("getdel", ["b"], {}, b"3"),
    ("setnx", ["a", "x"], {}, False),
    ("setex", ["s", 10, "v"], {}, True),
    ("psetex", ["s", 10_500, "v"], {}, True),
    ("ttl", ["s"], {}, 11),
    ("expireat", ["s", START + 60], {}, True),
    ("ttl", ["s"], {}, 60),
    ("exists", ["a", "a", "b", "c"], {}, 3),
    ("touch", ["a", "b"], {}, 1),
    ("type", ["a"], {}, b"string"),
    ("rename", ["a", "z"], {}, True),
    ("copy", ["z", "c"], {}, False),
    ("copy", ["z", "c"], {"replace": True}, True),
    ("get", ["c"], {}, b"-8"),
    ("unlink", ["c", "nobody"], {}, 1),
    ("dbsize", [], {}, 4),
    ("delete", ["k", "f", "s", "z"], {}, 4),
    ("randomkey", [], {}, None),
    ("keys", ["*"], {}, []),
]


@pytest.fixture
def fresh(start, protocol):
    """A server whose clock nobody has moved yet."""
    with redis.Redis(port=start(2).port, protocol=protocol) as connected:
        yield connected


@pytest.mark.smoke
def test_ordinary_commands(fresh):
    for name, arguments, options, expected in STEPS:
        answer = getattr(fresh, name)(*arguments, **options)
        assert answer == expected and type(answer) is type(expected), (name, arguments)


def test_ordinary_commands_in_asyncio(start, protocol):
    async def run(port: int) -> None:
        async with redis.asyncio.Redis(port=port, protocol=protocol) as connected:
            for name, arguments, options, expected in STEPS:
                answer = await getattr(connected, name)(*arguments, **options)
                assert answer == expected and type(answer) is type(expected), (name, arguments)

    asyncio.run(run(start(2).port))


def test_a_key_expires_when_the_clock_says_so(client):
    client.set("k", "v", px=1500)
    client.execute_command("RL.CLOCK", "ADVANCE", "1499ms")
    assert client.get("k") == b"v" and client.pttl("k") == 1
    client.execute_command("RL.CLOCK", "ADVANCE", "1ms")
    assert client.get("k") is None and client.exists("k") == 0 and client.ttl("k") == -2


def test_a_gateway_waits_as_long_as_it_is_told(client):
    """Denied, it waits `retry_after_ms` and is admitted; a millisecond less would not have been enough."""
    for limit in [["RL.SLIDE", "s", 3, "10"], ["RL.TOKEN", "t", 3, "1/10"], ["RL.FIXED", "f", 3, "10"]]:
        while (reply := client.execute_command(*limit))[0] == 1:
            assert reply[3] == 0
        assert reply[1:3] == [3, 0] and reply[3] > 1
        client.execute_command("RL.CLOCK", "ADVANCE", f"{reply[3] - 1}ms")
        assert client.execute_command(*limit)[0::3] == [0, 1]
        client.execute_command("RL.CLOCK", "ADVANCE", "1ms")
        assert client.execute_command(*limit)[0] == 1


def test_several_limits_at_once(client):
    ask = ["RL.ALL", "{u}:a", "SLIDE", 2, 60, 1, "{u}:b", "TOKEN", 1, "1/60", 1]
    assert client.execute_command(*ask)[:2] == [1, 1]
    allowed, binding, first, second = client.execute_command(*ask)
    assert (allowed, binding, first[0], second[:3]) == (0, 1, 1, [0, 1, 0])


def test_a_limit_is_no_value(client):
    client.execute_command("RL.SLIDE", "s", 5, "1h")
    client.set("v", 1)
    for name, arguments in [("get", ["s"]), ("incr", ["s"]), ("expire", ["s", 1]), ("append", ["s", "x"])]:
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            getattr(client, name)(*arguments)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.execute_command("RL.SLIDE", "v", 5, "1h")
    assert client.mget("s", "v") == [None, b"1"]
    assert client.rename("s", "moved") is True and client.type("moved") == b"rl.slide"
    assert client.execute_command("RL.SLIDE", "moved", 5, "1h")[2] == 3


def test_a_pipeline_of_everything(client):
    pipeline = client.pipeline(transaction=False)
    for number in range(2000):
        pipeline.set(f"v:{number}", number).incr(f"v:{number}").get(f"v:{number}")
        pipeline.execute_command("RL.SLIDE", f"l:{number % 20}", 50, "1h")
    replies = pipeline.execute()
    assert replies[0::4] == [True] * 2000
    assert replies[1::4] == list(range(1, 2001))
    assert replies[2::4] == [b"%d" % number for number in range(1, 2001)]
    assert sum(five[0] for five in replies[3::4]) == 20 * 50
    assert client.dbsize() == 2020


def test_errors_in_a_pipeline_stay_where_they_are(client):
    pipeline = client.pipeline(transaction=False).set("k", "text").incr("k").execute_command("NO.SUCH").get("k")
    replies = pipeline.execute(raise_on_error=False)
    assert replies[0] is True and replies[3] == b"text"
    assert all(isinstance(reply, redis.ResponseError) for reply in replies[1:3])


def test_transactions(client):
    assert client.pipeline().set("a", 1).incrby("a", 2).get("a").execute() == [True, 3, b"3"]
    limited = client.pipeline().incr("a").execute_command("RL.FIXED", "f", 5, 60).execute()
    assert limited[0] == 4 and limited[1][:3] == [1, 5, 4]
    replies = client.pipeline().set("t", "text").incr("t").get("t").execute(raise_on_error=False)
    assert replies[0] is True and "not an integer" in str(replies[1]) and replies[2] == b"text"
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.pipeline().set("a", 9).execute_command("NO.SUCH").execute()
    assert client.get("a") == b"4"


def test_optimistic_locking(client):
    """WATCH: the function runs again until nobody came between."""
    client.set("n", 0)
    runs = []

    def raise_it(pipeline) -> None:
        runs.append(int(pipeline.get("n")))
        if len(runs) < 3:
            client.incr("n")
        pipeline.multi()
        pipeline.set("n", runs[-1] + 100)

    assert client.transaction(raise_it, "n") == [True]
    assert runs == [0, 1, 2] and client.get("n") == b"102"
    with client.pipeline() as pipeline:
        pipeline.watch("gone")
        client.set("gone", 1)
        pipeline.multi()
        pipeline.get("gone")
        with pytest.raises(redis.WatchError):
            pipeline.execute()


def test_many_threads_raise_one_counter(client):
    def raise_it(_number: int) -> None:
        client.transaction(lambda pipeline: step(pipeline), "n")

    def step(pipeline) -> None:
        value = int(pipeline.get("n") or 0)
        pipeline.multi()
        pipeline.set("n", value + 1)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(raise_it, range(100)))
    assert client.get("n") == b"100"


def test_asyncio_pipelines_transactions_and_limits(server, protocol):
    """Three hundred tasks at a pool of fifty connections, and what one connection does in order."""

    async def run() -> None:
        pool = redis.asyncio.BlockingConnectionPool(port=server.port, protocol=protocol, max_connections=50, timeout=20)
        async with redis.asyncio.Redis.from_pool(pool) as connected:
            await connected.flushall()
            assert await connected.pipeline().set("a", 1).incr("a").get("a").execute() == [True, 2, b"2"]
            calls = [connected.execute_command("RL.SLIDE", "shared", 100, "1h") for _ in range(300)]
            assert sum(reply[0] for reply in await asyncio.gather(*calls)) == 100
            found = [key async for key in connected.scan_iter(match="*", count=3)]
            assert sorted(found) == [b"a", b"shared"]
            async with connected.pipeline() as pipeline:
                await pipeline.watch("a")
                await connected.incr("a")
                pipeline.multi()
                pipeline.incr("a")
                with pytest.raises(redis.WatchError):
                    await pipeline.execute()

    asyncio.run(run())


def test_a_pool_of_fifty_connections(server, protocol):
    """A hundred threads share fifty connections; who finds none free waits; the limit is exact all the same."""
    pool = redis.BlockingConnectionPool(port=server.port, protocol=protocol, max_connections=50, timeout=20)
    with redis.Redis.from_pool(pool) as client, ThreadPoolExecutor(100) as threads:
        client.flushall()
        together = threading.Barrier(100)

        def ask(_number: int) -> list:
            together.wait()
            return [client.execute_command("RL.SLIDE", "pool", 700, "1h")[0] for _ in range(10)]

        answers = list(threads.map(ask, range(100)))
        assert sum(map(sum, answers)) == 700
        assert len(client.client_list()) >= 40


def test_fifty_blocked_connections_go_on(server, protocol):
    """CLIENT PAUSE WRITE holds every writing call of a pool, reading ones go on; UNPAUSE lets all of them go."""
    pool = redis.BlockingConnectionPool(port=server.port, protocol=protocol, max_connections=50, timeout=20)
    with redis.Redis.from_pool(pool) as client, redis.Redis(port=server.port) as operator:
        operator.flushall()
        operator.set("read", "me")
        # Each thread has a connection before the pause, so that only its call is held.
        held = [pool.get_connection() for _ in range(50)]
        for connection in held:
            pool.release(connection)
        operator.client_pause(60_000, all=False)
        try:
            with ThreadPoolExecutor(50) as threads:
                calls = [threads.submit(client.execute_command, "RL.SLIDE", "p", 30, "1h") for _ in range(25)]
                calls += [threads.submit(client.incr, "n") for _ in range(25)]
                assert eventually(lambda: [each["flags"] for each in operator.client_list()].count("b") == 50)
                assert operator.get("read") == b"me" and operator.get("n") is None
                assert not any(call.done() for call in calls)
                operator.client_unpause()
                answers = [call.result(20) for call in calls]
        finally:
            operator.client_unpause()
        assert [five[0] for five in answers[:25]] == [1] * 25 and sorted(answers[25:]) == list(range(1, 26))


@pytest.mark.parametrize("kill", [False, True], ids=["in order", "killed"])
def test_a_restart(restarting, protocol, kill):
    """A client of the time before, with open connections, goes on; by default it tries each call again."""
    with restarting(2) as server, redis.Redis(port=server.port, protocol=protocol) as client:
        client.set("before", 1)
        with ThreadPoolExecutor(5) as threads:
            list(threads.map(lambda _: client.ping(), range(20)))
            server.restart(kill)
            assert sorted(threads.map(lambda _: client.incr("after"), range(20))) == list(range(1, 21))
        assert client.get("before") is None
        assert client.execute_command("RL.SLIDE", "s", 5, 60)[:3] == [1, 5, 4]


def test_a_restart_under_asyncio(restarting, protocol):
    async def run(server) -> None:
        retry = redis.asyncio.retry.Retry(ConstantBackoff(0.01), 100)
        async with redis.asyncio.Redis(port=server.port, protocol=protocol, retry=retry) as connected:
            await asyncio.gather(*(connected.ping() for _ in range(10)))
            await asyncio.to_thread(server.restart)
            answers = await asyncio.gather(*(connected.incr("after") for _ in range(10)))
            assert sorted(answers) == list(range(1, 11))

    with restarting(2) as server:
        asyncio.run(run(server))


def test_while_the_server_is_away(restarting, protocol):
    """Calls that find nobody are tried again until the server is back."""
    with restarting(1) as server:
        retry = Retry(ConstantBackoff(0.02), 500)
        with redis.Redis(port=server.port, protocol=protocol, retry=retry) as client, ThreadPoolExecutor(8) as threads:
            client.ping()
            server.running.kill()
            calls = [threads.submit(client.execute_command, "RL.FIXED", "f", 5, "1h") for _ in range(8)]
            server.restart(kill=True)
            assert sum(call.result(20)[0] for call in calls) == 5


def test_a_killed_connection_comes_back(client, server):
    with redis.Redis(port=server.port) as operator:
        client.set("k", "v")
        assert operator.client_kill_filter(_id=str(client.client_id())) == 1
        assert client.get("k") == b"v"
        assert operator.client_kill_filter(_id="999999999") == 0


def test_errors_keep_the_connection(client):
    with client.client() as single:
        number = single.client_id()
        for line in ["NO.SUCH a", "GET", "EVAL x 0", "SUBSCRIBE c", "CLIENT TRACKING ON", "SELECT 1"]:
            with pytest.raises(redis.ResponseError):
                single.execute_command(*line.split())
        assert single.client_id() == number


def test_scripts_are_refused(client):
    script = client.register_script("return redis.call('GET', KEYS[1])")
    with pytest.raises(redis.ResponseError, match="unknown command"):
        script(keys=["k"])


def test_the_operators_commands(client):
    assert client.config_set("slowlog-log-slower-than", 0) is True
    client.set("slow", "value")
    entries = client.slowlog_get(10)
    assert any(entry["command"].startswith(b"SET slow") for entry in entries), entries
    assert client.slowlog_len() >= 1 and client.slowlog_reset() in (True, b"OK")
    client.config_set("slowlog-log-slower-than", 10_000)
    assert client.role()[0] in (b"master", "master")
    assert client.memory_usage("slow") > 24 and client.object("encoding", "slow") in (b"embstr", "embstr")
    assert client.latency_latest() == [] and client.acl_whoami() in ("default", b"default")
    assert client.config_resetstat() is True
    assert client.info("stats")["total_commands_processed"] < 10
    assert client.command_getkeys("MSET", "a", 1, "b", 2) in (["a", "b"], [b"a", b"b"])
    assert client.client_info()["lib-name"].startswith("redis-py")
    assert client.client_no_evict("ON") in (True, b"OK", "OK")
    assert client.echo("x") == b"x" and client.time()[0] >= START


def test_monitor(client):
    with client.monitor() as monitor:
        client.set("k", 'a "quoted" value')
        client.execute_command("RL.SLIDE", "s", 5, 60)
        seen = [monitor.next_command()]
        while not seen[-1]["command"].startswith("RL.SLIDE"):
            seen.append(monitor.next_command())
    # Before them is what redis-py sends on a new connection.
    assert [command["command"] for command in seen[-2:]] == ['SET k a "quoted" value', "RL.SLIDE s 5 60"]
    assert all(command["db"] == 0 and command["client_type"] == "tcp" for command in seen)
