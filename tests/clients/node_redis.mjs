// node-redis as its users call it: its own methods, pipelines, transactions, a pool, and `sendCommand` for the limits.

import { createClient, createClientPool, WatchError } from "redis";
import { DAY_AFTER, NEXT_DAY, errorOf, eventually, password, port, protocol, runCases } from "./harness.mjs";

const settings = (options) => ({ socket: { host: "127.0.0.1", port }, RESP: protocol, password, ...options });

async function open(options = {}) {
  const client = createClient(settings(options));
  // Without a listener a lost connection ends the process; the cases look at what their calls answer.
  client.on("error", () => {});
  await client.connect();
  return client;
}

const call = (client, ...words) => client.sendCommand(words.map(String));
const messageOf = (answer) => (answer instanceof Error ? answer.message : answer);

/** What a transaction with failing commands answers: node-redis throws, and keeps each reply in the error. */
async function repliesOf(transaction) {
  try {
    return await transaction.exec();
  } catch (error) {
    return error.replies ? error.replies.map(messageOf) : error.message;
  }
}

const cases = {
  async values({ client }) {
    return [
      await client.set("k", "one"),
      await client.get("k"),
      await client.set("k", "two", { condition: "NX" }),
      await client.set("k", "two", { condition: "XX", GET: true }),
      await client.get("nobody"),
      await client.getSet("k", "three"),
      await client.append("k", "!"),
      await client.strLen("k"),
      await client.setNX("k", "four"),
      await client.mSet({ a: "1", b: "2", c: "3" }),
      await client.mGet(["a", "nobody", "c", "b"]),
      await client.getDel("a"),
      await client.mGet(["a", "b"]),
    ];
  },

  async bytes({ client }) {
    const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    await client.set(all, all);
    const lines = "$1\r\n*2\r\n";
    await client.mSet(["lines", lines, "empty", "", "word", "größe"]);
    const back = await client.mGet(["lines", "empty", "word"]);
    const asBuffer = client.withTypeMapping({ 36: Buffer });
    return [all.equals(await asBuffer.get(all)), back[0] === lines, ...back.slice(1), await client.strLen("word")];
  },

  async counters({ client }) {
    return [
      await client.incr("n"),
      await client.incrBy("n", 41),
      await client.decr("n"),
      await client.decrBy("n", 50),
      await client.get("n"),
      await client.incrByFloat("f", 1.5),
      await client.incrByFloat("f", -0.25),
      await client.set("text", "ten"),
      await errorOf(client.incr("text")),
      await client.get("text"),
      await client.set("top", "9223372036854775807"),
      await errorOf(client.incr("top")),
    ];
  },

  async expiry({ client, call }) {
    const answers = [
      await client.set("k", "v", { expiration: { type: "EX", value: 100 } }),
      await client.ttl("k"),
      await client.expire("k", 200, "NX"),
      await client.expire("k", 200, "GT"),
      await client.ttl("k"),
      await client.persist("k"),
      await client.ttl("k"),
      await client.ttl("nobody"),
      await client.pExpire("k", 1500),
      await client.pTTL("k"),
      await client.getEx("k", { type: "EX", value: 10 }),
      await client.ttl("k"),
      await client.setEx("soon", 1, "v"),
    ];
    const [seconds] = await client.sendCommand(["TIME"]);
    answers.push(await client.expireAt("k", Number(seconds) + 30));
    answers.push((await client.expireTime("k")) - Number(seconds));
    await call("RL.CLOCK", "ADVANCE", "999ms");
    answers.push(await client.get("soon"));
    await call("RL.CLOCK", "ADVANCE", "1ms");
    answers.push(await client.get("soon"), await client.ttl("soon"));
    return answers;
  },

  async keys({ client }) {
    await client.mSet({ a: "1", b: "2", c: "3", d: "4" });
    const scanned = new Set();
    for await (const keys of client.scanIterator({ MATCH: "[a-c]", COUNT: 2 })) keys.forEach((key) => scanned.add(key));
    return [
      await client.exists(["a", "b", "a", "nobody"]),
      await client.type("a"),
      await client.touch(["a", "nobody"]),
      await client.rename("a", "z"),
      await errorOf(client.rename("a", "y")),
      await client.copy("z", "b"),
      await client.copy("z", "b", { REPLACE: true }),
      await client.get("b"),
      await client.unlink(["c", "nobody"]),
      (await client.keys("*")).sort(),
      await client.dbSize(),
      await client.del(["z", "b", "d", "nobody"]),
      await client.randomKey(),
      [...scanned].sort(),
    ];
  },

  // What a gateway does: asks until it is refused, waits as long as it was told, and is admitted again.
  async slide({ client, call }) {
    await call("RL.CLOCK", "SET", NEXT_DAY);
    const ask = () => client.sendCommand(["RL.SLIDE", "rl:{ak_42}:orders", "2", "60"]);
    const answers = [await ask(), await ask(), await ask()];
    await call("RL.CLOCK", "ADVANCE", `${answers[2][3] - 1}ms`);
    answers.push(await ask());
    await call("RL.CLOCK", "ADVANCE", "1ms");
    answers.push((await ask()).slice(0, 4));
    return [...answers, await client.type("rl:{ak_42}:orders"), await client.exists("rl:{ak_42}:orders")];
  },

  async token({ call, client }) {
    const ask = (...words) => call("RL.TOKEN", "t", 5, "1/60", ...words);
    return [
      await ask("COST", 3),
      await ask("COST", 3),
      await ask("COST", 3, "PARTIAL"),
      await ask("COST", 2, "REFUND"),
      await ask("PEEK"),
      await errorOf(call("RL.SLIDE", "t", 5, 60)),
      await errorOf(client.incr("t")),
      await errorOf(call("RL.TOKEN", "t", 5, "0/60")),
    ];
  },

  async all({ call }) {
    await call("RL.CLOCK", "SET", DAY_AFTER);
    const ask = () => call("RL.ALL", "{u}:a", "SLIDE", 1, 60, 1, "{u}:b", "TOKEN", 5, 1, 1);
    const apart = Array.from({ length: 16 }, (_, number) => [`k${number}`, "FIXED", 9, 60, 2]).flat();
    const many = await call("RL.ALL", ...apart);
    return [await ask(), await ask(), many.slice(0, 2), new Set(many.slice(2).map(String)).size];
  },

  async pipeline({ client, call }) {
    // Calls of one turn of the event loop leave as one write.
    const together = [
      client.set("k", 1),
      client.incr("k"),
      call("RL.FIXED", "f", 5, 60),
      call("NO.SUCH", "k"),
      client.get("k"),
    ];
    const answers = (await Promise.allSettled(together)).map(({ value, reason }) => reason?.message ?? value);
    const many = client.multi();
    for (let number = 0; number < 2000; number += 1) many.addCommand(["RL.SLIDE", `p:${number % 10}`, "50", "1h"]);
    const allowed = (await many.execAsPipeline()).filter((five) => five[0] === 1);
    return [...answers, allowed.length];
  },

  async transaction({ client }) {
    const limit = ["RL.SLIDE", "s", "2", "60"];
    return [
      await client.multi().set("a", "1").incrBy("a", 2).addCommand(limit).get("a").exec(),
      await repliesOf(client.multi().set("t", "text").incr("t").get("t")),
      await repliesOf(client.multi().set("a", "9").addCommand(["NO.SUCH"])),
      await client.get("a"),
      await errorOf(client.sendCommand(["EXEC"])),
    ];
  },

  async watch({ client, open }) {
    const other = await open();
    await client.set("w", 1);
    await client.watch("w");
    const calm = await client.multi().incr("w").exec();
    await client.watch("w");
    await other.set("w", 10);
    const raced = await client.multi().incr("w").exec().catch((error) => error instanceof WatchError);
    await client.watch("w");
    await client.unwatch();
    await other.set("w", 20);
    const forgotten = await client.multi().incr("w").exec();
    return [calm, raced, forgotten];
  },

  async errors_keep_the_connection({ client, call }) {
    const id = await client.clientId();
    const errors = [
      await errorOf(call("NO.SUCH", "a", "b")),
      await errorOf(call("GET")),
      await errorOf(client.eval("return 1")),
      await errorOf(client.lPush("l", "1")),
      await errorOf(call("CLIENT", "TRACKING", "ON")),
      await errorOf(call("SELECT", 1)),
    ];
    return [errors.map((message) => message.split(" ").slice(0, 3).join(" ")), (await client.clientId()) === id];
  },

  async server({ client, open }) {
    const named = await open({ name: "gateway-7" });
    const info = await client.info();
    const mine = (await client.clientList()).find((each) => each.name === "gateway-7");
    const answers = [
      /redis_version:7\.2\.4\r\n/.test(info),
      /node-redis/.test(mine.libName),
      await named.clientGetName(),
      (await client.configGet("maxmemory-policy"))["maxmemory-policy"],
      await client.configSet("slowlog-max-len", "64"),
      (await client.configGet("slowlog-max-len"))["slowlog-max-len"],
      (await client.role()).role,
      await client.ping(),
      await client.echo("hello"),
      await client.objectEncoding("nobody"),
      (await client.sendCommand(["SLOWLOG", "GET"])).length >= 0,
    ];
    await client.set("n", 12);
    answers.push(await client.objectEncoding("n"), (await client.memoryUsage("n")) > 0);
    return answers;
  },

  async monitor({ client, open, call }) {
    const watcher = await open();
    const seen = [];
    await watcher.monitor((line) => seen.push(line.slice(line.indexOf("]") + 2)));
    await client.set("k", "v");
    await call("RL.SLIDE", "s", 5, 60);
    await eventually(() => seen.length >= 2);
    return seen;
  },

  async killed({ client, open }) {
    const other = await open();
    const id = await client.clientId();
    const isReady = new Promise((resolve) => client.once("ready", resolve));
    await other.clientKill({ filter: "ID", id });
    await isReady;
    await client.set("k", "v");
    return [await client.get("k"), (await client.clientId()) === id];
  },

  async paused({ client, open }) {
    const other = await open();
    await client.set("k", 1);
    await client.clientPause(60_000, "WRITE");
    let isDone = false;
    const waiting = other.incr("k").then((answer) => {
      isDone = true;
      return answer;
    });
    const read = await client.get("k");
    await client.ping();
    return [read, isDone, await client.clientUnpause(), await waiting];
  },

  async fifty_connections({ client }) {
    const pool = createClientPool(settings(), { minimum: 50, maximum: 50 });
    pool.on("error", () => {});
    await pool.connect();
    const ask = () => pool.execute((each) => each.sendCommand(["RL.SLIDE", "shared", "100", "1h"]));
    const allowed = (await Promise.all(Array.from({ length: 400 }, ask))).filter((five) => five[0] === 1);
    const connected = (await client.clientList()).length;
    const answer = [allowed.length, pool.totalClients, connected >= 51];
    pool.destroy();
    return answer;
  },

  async restart({ client, ask, call, open }) {
    const many = [client, ...(await Promise.all(Array.from({ length: 5 }, () => open())))];
    const areReady = many.map((each) => new Promise((resolve) => each.once("ready", resolve)));
    await client.set("before", 1);
    await ask("restart");
    // A call that was under way when the connection broke is rejected, by this library's choice; later ones wait.
    await Promise.all(areReady);
    const after = await Promise.all(many.map((each) => each.incr("after")));
    return [after.sort(), await call("RL.SLIDE", "s", 5, 60), (await call("RL.CLOCK")) > 0];
  },
};

await runCases(cases, { open, close: (client) => client.destroy(), call });
