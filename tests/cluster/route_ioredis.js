// How often ioredis asks for the whole map while it calls limits, through the helper and without: it does so at each
// MOVED. Prints {"helper", "plain", "other"}: the two numbers, and what a call of several limits answers.

const { Limits } = require("./limits.js");

const plan = JSON.parse(process.argv[2]);
const cluster = new Limits(plan.nodes, { redisOptions: { protocol: plan.protocol } });

async function refreshed(call) {
  let count = 0;
  const counter = () => count++;
  cluster.on("refresh", counter);
  for (const [key, limit] of plan.keys) {
    const five = await call(key, limit);
    if (five.length !== 5 || five[0] !== 1) throw new Error(`${key} was answered by ${five}`);
  }
  cluster.off("refresh", counter);
  return count;
}

cluster.once("ready", async () => {
  // The map that it has asked for at the start has come.
  await cluster.limit("rl.slide", "warm", 10, "1h");
  const helper = await refreshed((key, limit) => cluster.limit("rl.slide", key, limit, "1h"));
  const plain = await refreshed((key, limit) => cluster.call("rl.slide", key, limit, "1h"));
  const wrong = await cluster.limit("rl.slide", "warm", "x", "1h").then(String, (error) => error.message);
  console.log(JSON.stringify({ helper, plain, wrong }));
  process.exit(0);
});
