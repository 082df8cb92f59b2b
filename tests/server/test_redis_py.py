"""redis-py 8, the client most Python gateways use, as it connects by default and in RESP2."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from server.process import Server


@pytest.fixture
def client(server: Server, protocol: int):
    with redis.Redis(port=server.port, protocol=protocol) as connected:
        connected.flushall()
        yield connected


@pytest.mark.smoke
def test_a_limit(client):
    assert client.execute_command("RL.SLIDE", "k", 2, "1h")[:3] == [1, 2, 1]
    assert client.execute_command("RL.SLIDE", "k", 2, "1h", "COST", 5)[:4] == [0, 2, 1, -1]
    assert client.type("k") == b"rl.slide"
    assert 0 < client.pttl("k") <= 7_200_000 and client.exists("k") == 1


def test_by_default_and_by_name(server):
    with redis.Redis(port=server.port, client_name="gateway-1", decode_responses=True) as client:
        assert client.ping() is True
        assert client.client_getname() == "gateway-1"
        names = {entry["name"]: entry for entry in client.client_list()}
        assert names["gateway-1"]["lib-name"].startswith("redis-py")


def test_errors_have_their_classes(client):
    client.execute_command("RL.SLIDE", "k", 2, "1h")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.execute_command("RL.TOKEN", "k", 2, 1)
    with pytest.raises(redis.ResponseError, match="limit"):
        client.execute_command("RL.SLIDE", "k", -2, 1)


def test_a_pipeline(client):
    pipeline = client.pipeline(transaction=False)
    for number in range(1000):
        pipeline.execute_command("RL.SLIDE", f"p:{number % 10}", 50, "1h")
    replies = pipeline.execute()
    assert sum(reply[0] for reply in replies) == 500


def test_all(client):
    reply = client.execute_command("RL.ALL", "a", "SLIDE", 1, 60, 1, "c", "TOKEN", 5, 1, 1)
    assert reply[0] == 1 and [five[0] for five in reply[2:]] == [1, 1]


def test_scanning(client):
    for number in range(100):
        client.execute_command("RL.FIXED", f"s:{number}", 5, "1d")
    assert len(set(client.scan_iter(match="s:*"))) == 100
    assert len(client.keys("s:1?")) == 10
    assert client.dbsize() == 100


def test_server_commands(client):
    assert client.info()["redis_version"] == "7.2.4"
    assert client.info("server")["tollgate_cores"] >= 1
    assert client.config_get("databases") in ({"databases": "1"}, {b"databases": b"1"})
    assert "rl.slide" in client.command()
    assert client.command_count() == len(client.command())
    assert client.time()[0] >= 1_577_836_800
    assert client.cluster("KEYSLOT", "foo") == 12182


def test_a_password(start, protocol):
    server = start(2, "--requirepass", "secret")
    with redis.Redis(port=server.port, password="secret", protocol=protocol) as client:
        assert client.execute_command("RL.SLIDE", "k", 2, "1h")[0] == 1
    with redis.Redis(port=server.port, password="wrong", protocol=protocol) as client:
        with pytest.raises(redis.AuthenticationError):
            client.ping()


def test_many_threads_share_one_client(client):
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: client.execute_command("RL.SLIDE", "shared", 100, "1h"), range(400)))
    assert sum(reply[0] for reply in replies) == 100
