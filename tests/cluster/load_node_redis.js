// The load by node-redis, with the one setting that docs/clients.md advises.

const { createCluster } = require("redis");
const { plan, run } = require("./load.js");

const rootNodes = plan.nodes.map(({ host, port }) => ({ url: `redis://${host}:${port}` }));
const cluster = createCluster({
  rootNodes,
  defaults: { RESP: plan.protocol },
  topologyRefreshOnReconnectionAttemptStrategy: 100,
});
cluster.on("error", () => {});
cluster.connect().then(() =>
  run((key, limit) => cluster.sendCommand(key, false, ["RL.SLIDE", key, String(limit), plan.window]),
    async () => cluster.destroy()));
