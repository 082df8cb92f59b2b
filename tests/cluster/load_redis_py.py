"""The load by redis-py: as load.js, with threads."""

import json
import sys
import threading
import time

from redis.cluster import ClusterNode, RedisCluster

PROGRESS_CALLS = 500


class Load:
    def __init__(self, plan: dict) -> None:
        self.plan, self.keys = plan, plan["keys"]
        nodes = [ClusterNode(node["host"], node["port"]) for node in plan["nodes"]]
        self.client = RedisCluster(startup_nodes=nodes, protocol=plan["protocol"])
        self.lock = threading.Lock()
        self.is_ending = threading.Event()
        self.next = self.calls = 0
        self.errors: list = []
        self.admitted: dict[str, int] = {}
        self.denied: dict[str, int] = {}
        self.longest = {"seconds": 0.0, "began": 0.0}

    def once(self, key: str, limit: int) -> bool | None:
        began, is_allowed, text = time.monotonic(), None, None
        try:
            is_allowed = self.client.execute_command("RL.SLIDE", key, limit, self.plan["window"])[0] == 1
        except Exception as error:  # noqa: BLE001, whatever its user would see
            text = f"{type(error).__name__}: {error}"
        ended = time.monotonic()
        with self.lock:
            if text is not None:
                self.errors.append([began, ended, text])
            else:
                counts = self.admitted if is_allowed else self.denied
                counts[key] = counts.get(key, 0) + 1
            if ended - began > self.longest["seconds"]:
                self.longest = {"seconds": ended - began, "began": began}
            self.calls += 1
            if self.calls % PROGRESS_CALLS == 0:
                print(json.dumps({"calls": self.calls}), flush=True)
        return is_allowed

    def work(self) -> None:
        while not self.is_ending.wait(self.plan["pause_ms"] / 1000):
            with self.lock:
                key, limit = self.keys[self.next % len(self.keys)]
                self.next += 1
            self.once(key, limit)

    def finish(self, keys: list) -> None:
        for key, limit in keys:
            for _ in range(2 * limit + 1):
                if self.once(key, limit) is False:
                    break

    def run(self) -> None:
        self.all_of([threading.Thread(target=self.work) for _ in range(self.plan["workers"])], sys.stdin.read)
        small = [key for key in self.keys if key[1] < self.plan["far"]]
        parts = [small[part :: self.plan["workers"]] for part in range(self.plan["workers"])]
        self.all_of([threading.Thread(target=self.finish, args=(part,)) for part in parts], lambda: None)
        report = {name: getattr(self, name) for name in ("calls", "errors", "admitted", "denied", "longest")}
        print(json.dumps({**report, "ended": True}), flush=True)

    def all_of(self, threads: list[threading.Thread], until) -> None:
        for thread in threads:
            thread.start()
        until()
        self.is_ending.set()
        for thread in threads:
            thread.join()


Load(json.loads(sys.argv[1])).run()
