"use strict";
// The Node limiters, unmodified, each until it refuses and again after its window, against one server:
//
//     node limiters.js PORT
//
// Prints an object: for each limiter the decisions of both rounds, and for the scripted ones what they failed with.

const Redis = require("ioredis");
const { createClient } = require("redis");
const { rateLimit } = require("express-rate-limit");
const LegacyStore = require("rate-limit-redis");
const { RedisStore } = require("rate-limit-redis-scripted");
const expressLimiter = require("express-limiter");
const { RateLimiterRedis, RateLimiterRedisNonAtomic, RateLimiterMemory } = require("rate-limiter-flexible");

const LIMIT = 3;
const WINDOW_SECONDS = 1;
const CALLS = 5;
const PATIENCE_MILLIS = 10_000;

/** A request and a response, as much of them as the middlewares touch. */
function exchange() {
  const request = { ip: "10.0.0.1", path: "/", method: "GET", headers: {}, app: { get: () => false }, get: () => "" };
  const response = { headers: {}, statusCode: 200, headersSent: false, writableEnded: false };
  response.setHeader = (name, value) => (response.headers[name.toLowerCase()] = value);
  response.getHeader = (name) => response.headers[name.toLowerCase()];
  response.set = response.setHeader;
  response.append = response.setHeader;
  response.on = response.once = () => response;
  response.status = (code) => ((response.statusCode = code), response);
  return { request, response };
}

/** One request through a middleware: the status that it leads to, or the error it hands on. */
function through(middleware) {
  const { request, response } = exchange();
  return new Promise((resolve) => {
    response.send = response.end = response.json = () => resolve(response.statusCode);
    const next = (error) => resolve(error ? error.message.replace(/,.*/, "") : 200);
    Promise.resolve(middleware(request, response, next)).catch(next);
  });
}

/** What rate-limiter-flexible says to one point: what is left, or "refused", or why it failed. */
async function consume(limiter, key) {
  try {
    return (await limiter.consume(key)).remainingPoints;
  } catch (refusal) {
    return refusal instanceof Error ? refusal.message.replace(/,.*/, "") : "refused";
  }
}

/** A middleware of express-rate-limit on a store. */
function express(store, extra = {}) {
  const options = { windowMs: WINDOW_SECONDS * 1000, limit: LIMIT, legacyHeaders: false, validate: false };
  return rateLimit({ ...options, store, ...extra });
}

/** All limiters on two clients, by name: a function that makes one call and answers what was decided. */
function limiters(io, node) {
  const flexible = { points: LIMIT, duration: WINDOW_SECONDS };
  const nonAtomicIo = new RateLimiterRedisNonAtomic({ ...flexible, storeClient: io, keyPrefix: "io" });
  const nonAtomicNode = new RateLimiterRedisNonAtomic({
    ...flexible, storeClient: node, keyPrefix: "node", useRedisPackage: true,
  });
  const legacyStore = express(new LegacyStore({ client: io, expiry: WINDOW_SECONDS, prefix: "legacy:" }));
  const byGetAndSet = expressLimiter({ get: () => {} }, io)({
    path: "/", method: "get", lookup: "ip", total: LIMIT, expire: WINDOW_SECONDS * 1000,
  });
  return {
    "rate-limiter-flexible, not atomic, ioredis": () => consume(nonAtomicIo, "{ak_42}"),
    "rate-limiter-flexible, not atomic, node-redis": () => consume(nonAtomicNode, "{ak_42}"),
    "express-rate-limit on rate-limit-redis 2": () => through(legacyStore),
    "express-limiter": () => through(byGetAndSet),
  };
}

/** The other methods of rate-limiter-flexible that run no script, and a limiter without a window. */
async function methods(io) {
  const limiter = new RateLimiterRedisNonAtomic({ storeClient: io, points: 5, duration: 60, keyPrefix: "m" });
  const forever = new RateLimiterRedis({ storeClient: io, points: 2, duration: 0, keyPrefix: "forever" });
  const points = (result) => result && [result.consumedPoints, result.remainingPoints];
  return [
    points(await limiter.get("a")),
    points(await limiter.penalty("a", 2)),
    points(await limiter.reward("a", 1)),
    points(await limiter.get("a")),
    points(await limiter.set("b", 4, 30)),
    points(await limiter.block("c", 30)),
    await consume(limiter, "c"),
    await limiter.delete("c"),
    await limiter.delete("c"),
    await consume(limiter, "c"),
    await consume(forever, "a"),
    await consume(forever, "a"),
    await consume(forever, "a"),
    points(await forever.get("a")),
    await io.pttl("forever:a"),
  ];
}

/** The limiters that are scripts: one call each. */
async function scripted(io, node) {
  const flexible = { points: LIMIT, duration: 60 };
  const insured = new RateLimiterMemory(flexible);
  const store = new RedisStore({ sendCommand: (...words) => node.sendCommand(words), prefix: "scripted:" });
  store.incrementScriptSha?.catch?.(() => {});
  store.getScriptSha?.catch?.(() => {});
  return {
    "rate-limiter-flexible": await consume(new RateLimiterRedis({ ...flexible, storeClient: io }), "a"),
    "rate-limiter-flexible, insured": await consume(
      new RateLimiterRedis({ ...flexible, storeClient: io, insuranceLimiter: insured }), "b"),
    "express-rate-limit on rate-limit-redis 6": await through(express(store)),
    "express-rate-limit on rate-limit-redis 6, open": await through(express(store, { passOnStoreError: true })),
  };
}

async function rounds(calls) {
  const decided = {};
  for (const [name, call] of Object.entries(calls)) {
    decided[name] = [];
    for (let count = 0; count < CALLS; count += 1) decided[name].push(await call());
  }
  return decided;
}

/** Waits until every window has passed. */
async function untilEmpty(io) {
  const deadline = Date.now() + PATIENCE_MILLIS;
  for (;;) {
    const keys = await io.keys("*");
    if (keys.length === 0) return;
    if (Date.now() > deadline) throw new Error(`keys that do not expire: ${keys}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function main() {
  // express-rate-limit tells of the store's errors, which are what is looked for.
  console.error = () => {};
  const port = Number(process.argv[2]);
  const io = new Redis(port, "127.0.0.1");
  const node = await createClient({ socket: { host: "127.0.0.1", port } }).connect();
  const calls = limiters(io, node);
  const first = await rounds(calls);
  await untilEmpty(io);
  const again = await rounds(calls);
  const other = await methods(io);
  const refused = await scripted(io, node);
  io.disconnect();
  node.destroy();
  console.log(JSON.stringify({ first, again, other, refused }));
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
