// ioredis as its users call it: its own methods, pipelines, transactions, and `call` for the limits.

import Redis from "ioredis";
import { DAY_AFTER, NEXT_DAY, errorOf, eventually, password, port, protocol, runCases } from "./harness.mjs";

function open(options = {}) {
  const client = new Redis({ host: "127.0.0.1", port, protocol, password, ...options });
  // Without a listener ioredis prints each lost connection; the cases look at what their calls answer.
  client.on("error", () => {});
  return new Promise((resolve) => client.once("ready", () => resolve(client)));
}

const cases = {
  async values({ client }) {
    return [
      await client.set("k", "one"),
      await client.get("k"),
      await client.set("k", "two", "NX"),
      await client.set("k", "two", "XX", "GET"),
      await client.get("nobody"),
      await client.getset("k", "three"),
      await client.append("k", "!"),
      await client.strlen("k"),
      await client.setnx("k", "four"),
      await client.mset({ a: "1", b: "2", c: "3" }),
      await client.mget("a", "nobody", "c", "b"),
      await client.getdel("a"),
      await client.mget("a", "b"),
    ];
  },

  async bytes({ client }) {
    const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    await client.set(all, all);
    const lines = "$1\r\n*2\r\n";
    await client.mset("lines", lines, "empty", "", "word", "größe");
    const back = await client.mget("lines", "empty", "word");
    return [all.equals(await client.getBuffer(all)), back[0] === lines, ...back.slice(1), await client.strlen("word")];
  },

  async counters({ client }) {
    return [
      await client.incr("n"),
      await client.incrby("n", 41),
      await client.decr("n"),
      await client.decrby("n", 50),
      await client.get("n"),
      await client.incrbyfloat("f", 1.5),
      await client.incrbyfloat("f", -0.25),
      await client.set("text", "ten"),
      await errorOf(client.incr("text")),
      await client.get("text"),
      await client.set("top", "9223372036854775807"),
      await errorOf(client.incr("top")),
    ];
  },

  async expiry({ client, call }) {
    const answers = [
      await client.set("k", "v", "EX", 100),
      await client.ttl("k"),
      await client.expire("k", 200, "NX"),
      await client.expire("k", 200, "GT"),
      await client.ttl("k"),
      await client.persist("k"),
      await client.ttl("k"),
      await client.ttl("nobody"),
      await client.pexpire("k", 1500),
      await client.pttl("k"),
      await client.getex("k", "EX", 10),
      await client.ttl("k"),
      await client.setex("soon", 1, "v"),
    ];
    const [seconds] = await client.time();
    answers.push(await client.expireat("k", Number(seconds) + 30));
    answers.push((await client.expiretime("k")) - Number(seconds));
    await call("RL.CLOCK", "ADVANCE", "999ms");
    answers.push(await client.get("soon"));
    await call("RL.CLOCK", "ADVANCE", "1ms");
    answers.push(await client.get("soon"), await client.ttl("soon"));
    return answers;
  },

  async keys({ client }) {
    await client.mset({ a: "1", b: "2", c: "3", d: "4" });
    const scanned = new Set();
    for await (const keys of client.scanStream({ match: "[a-c]", count: 2 })) keys.forEach((key) => scanned.add(key));
    return [
      await client.exists("a", "b", "a", "nobody"),
      await client.type("a"),
      await client.touch("a", "nobody"),
      await client.rename("a", "z"),
      await errorOf(client.rename("a", "y")),
      await client.copy("z", "b"),
      await client.copy("z", "b", "REPLACE"),
      await client.get("b"),
      await client.unlink("c", "nobody"),
      (await client.keys("*")).sort(),
      await client.dbsize(),
      await client.del("z", "b", "d", "nobody"),
      await client.randomkey(),
      [...scanned].sort(),
    ];
  },

  // What a gateway does: asks until it is refused, waits as long as it was told, and is admitted again.
  async slide({ client, call }) {
    await call("RL.CLOCK", "SET", NEXT_DAY);
    const ask = () => client.call("RL.SLIDE", "rl:{ak_42}:orders", 2, 60);
    const answers = [await ask(), await ask(), await ask()];
    await call("RL.CLOCK", "ADVANCE", `${answers[2][3] - 1}ms`);
    answers.push(await ask());
    await call("RL.CLOCK", "ADVANCE", "1ms");
    answers.push((await ask()).slice(0, 4));
    return [...answers, await client.type("rl:{ak_42}:orders"), await client.exists("rl:{ak_42}:orders")];
  },

  async token({ client }) {
    const ask = (...words) => client.call("RL.TOKEN", "t", 5, "1/60", ...words);
    return [
      await ask("COST", 3),
      await ask("COST", 3),
      await ask("COST", 3, "PARTIAL"),
      await ask("COST", 2, "REFUND"),
      await ask("PEEK"),
      await errorOf(client.call("RL.SLIDE", "t", 5, 60)),
      await errorOf(client.incr("t")),
      await errorOf(client.call("RL.TOKEN", "t", 5, "0/60")),
    ];
  },

  async all({ client, call }) {
    await call("RL.CLOCK", "SET", DAY_AFTER);
    const ask = () => client.call("RL.ALL", "{u}:a", "SLIDE", 1, 60, 1, "{u}:b", "TOKEN", 5, 1, 1);
    const apart = Array.from({ length: 16 }, (_, number) => [`k${number}`, "FIXED", 9, 60, 2]).flat();
    const many = await client.call("RL.ALL", ...apart);
    return [await ask(), await ask(), many.slice(0, 2), new Set(many.slice(2).map(String)).size];
  },

  async pipeline({ client }) {
    const pipeline = client.pipeline().set("k", 1).incr("k").call("RL.FIXED", "f", 5, 60).call("NO.SUCH", "k").get("k");
    const answers = (await pipeline.exec()).map(([error, answer]) => error?.message ?? answer);
    const many = client.pipeline();
    for (let number = 0; number < 2000; number += 1) many.call("RL.SLIDE", `p:${number % 10}`, 50, "1h");
    const allowed = (await many.exec()).filter(([, five]) => five[0] === 1);
    return [...answers, allowed.length];
  },

  async automatic_pipelining({ open }) {
    const client = await open({ enableAutoPipelining: true });
    const replies = await Promise.all(Array.from({ length: 500 }, () => client.incr("auto")));
    return [new Set(replies).size, await client.get("auto")];
  },

  async transaction({ client }) {
    const done = await client.multi().set("a", 1).incrby("a", 2).call("RL.SLIDE", "s", 2, 60).get("a").exec();
    const half = await client.multi().set("t", "text").incr("t").get("t").exec();
    const refused = errorOf(client.multi().set("a", 9).call("NO.SUCH").exec());
    const step = [];
    step.push(await client.multi({ pipeline: false }), await client.set("a", 7), await client.discard());
    return [
      done.map(([error, answer]) => error?.message ?? answer),
      half.map(([error, answer]) => error?.message ?? answer),
      await refused,
      step,
      await client.get("a"),
      await errorOf(client.call("EXEC")),
    ];
  },

  async watch({ client, open }) {
    const other = await open();
    await client.set("w", 1);
    await client.watch("w");
    const calm = await client.multi().incr("w").exec();
    await client.watch("w");
    await other.set("w", 10);
    const raced = await client.multi().incr("w").exec();
    await client.watch("w");
    await client.unwatch();
    await other.set("w", 20);
    const forgotten = await client.multi().incr("w").exec();
    return [calm, raced, forgotten];
  },

  async errors_keep_the_connection({ client }) {
    const id = await client.client("ID");
    const errors = [
      await errorOf(client.call("NO.SUCH", "a", "b")),
      await errorOf(client.call("GET")),
      await errorOf(client.eval("return 1", 0)),
      await errorOf(client.lpush("l", 1)),
      await errorOf(client.call("CLIENT", "TRACKING", "ON")),
      await errorOf(client.select(1)),
    ];
    return [errors.map((message) => message.split(" ").slice(0, 3).join(" ")), (await client.client("ID")) === id];
  },

  async server({ client, open }) {
    const named = await open({ connectionName: "gateway-7" });
    const info = await client.info();
    const mine = (await client.client("LIST")).split("\n").find((line) => line.includes("name=gateway-7"));
    const answers = [
      /redis_version:7\.2\.4\r\n/.test(info),
      /lib-name=ioredis/.test(mine),
      await named.client("GETNAME"),
      (await client.config("GET", "maxmemory-policy"))[1],
      await client.config("SET", "slowlog-max-len", 64),
      (await client.config("GET", "slowlog-max-len"))[1],
      (await client.role())[0],
      await client.ping(),
      await client.echo("hello"),
      await client.object("ENCODING", "nobody"),
      (await client.slowlog("GET")).length >= 0,
    ];
    await client.set("n", 12);
    answers.push(await client.object("ENCODING", "n"), (await client.memory("USAGE", "n")) > 0);
    return answers;
  },

  async monitor({ client, open }) {
    const watcher = await open();
    const monitor = await watcher.monitor();
    const seen = [];
    monitor.on("monitor", (time, words) => seen.push(words.join(" ")));
    await client.set("k", "v");
    await client.call("RL.SLIDE", "s", 5, 60);
    await eventually(() => seen.length >= 2);
    monitor.disconnect();
    return seen;
  },

  async killed({ client, open }) {
    const other = await open();
    const id = await client.client("ID");
    await other.client("KILL", "ID", id);
    // The library connects again and sends the call then.
    await client.set("k", "v");
    return [await client.get("k"), (await client.client("ID")) === id];
  },

  async paused({ client, open }) {
    const other = await open();
    await client.set("k", 1);
    await client.client("PAUSE", 60_000, "WRITE");
    let isDone = false;
    const waiting = other.incr("k").then((answer) => {
      isDone = true;
      return answer;
    });
    const read = await client.get("k");
    await client.ping();
    return [read, isDone, await client.client("UNPAUSE"), await waiting];
  },

  async fifty_connections({ open, client }) {
    const clients = await Promise.all(Array.from({ length: 50 }, () => open()));
    const ask = (each) => each.call("RL.SLIDE", "shared", 100, "1h");
    const calls = clients.flatMap((each) => Array.from({ length: 8 }, () => ask(each)));
    const allowed = (await Promise.all(calls)).filter((five) => five[0] === 1);
    const ids = await Promise.all(clients.map((each) => each.client("ID")));
    return [allowed.length, new Set(ids).size, (await client.client("LIST")).trim().split("\n").length >= 51];
  },

  async restart({ client, ask, open }) {
    const many = await Promise.all(Array.from({ length: 5 }, () => open()));
    await client.set("before", 1);
    await ask("restart");
    const after = await Promise.all([client, ...many].map((each) => each.incr("after")));
    return [after.sort(), await client.call("RL.SLIDE", "s", 5, 60), await client.call("RL.CLOCK") > 0];
  },
};

await runCases(cases, {
  open,
  close: (client) => client.disconnect(),
  call: (client, ...words) => client.call(...words),
});
