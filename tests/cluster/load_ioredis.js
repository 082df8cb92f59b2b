// The load by ioredis, through the helper of docs/clients.md, which lies beside this as limits.js.

const { Limits } = require("./limits.js");
const { plan, run } = require("./load.js");

const cluster = new Limits(plan.nodes, { redisOptions: { protocol: plan.protocol } });
cluster.on("error", () => {});
cluster.once("ready", () =>
  run((key, limit) => cluster.limit("rl.slide", key, limit, plan.window), async () => cluster.disconnect()));
