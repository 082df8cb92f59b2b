"use strict";
// Drives a Node client of docs/from-redis.md: `node run.js '{"port":…,"pid":…,"silent":…,"calls":[…]}'`.

const Limiter = require("./limiter.js");

console.warn = () => {};

const answer = ({ allowed, retryAfter }) => [allowed, retryAfter ?? null];
const pause = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

async function main() {
  const { port, pid, silent, calls } = JSON.parse(process.argv[2]);
  const limiter = new Limiter(`redis://127.0.0.1:${port}`, 5000);
  while (!(limiter.store.isReady || limiter.store.status === "ready")) await pause(5);
  const answers = [];
  for (const [key, limit, window] of calls) answers.push(answer(await limiter.check(key, limit, window)));
  process.kill(pid, "SIGKILL");
  while (limiter.store.isReady || limiter.store.status === "ready") await pause(5);
  answers.push(answer(await limiter.check(...calls[0])));
  const hanging = new Limiter(`redis://127.0.0.1:${silent}`);
  const begun = Date.now();
  const fromSilent = answer(await hanging.check(...calls[0]));
  console.log(JSON.stringify({ answers, silent: fromSilent, silent_seconds: (Date.now() - begun) / 1000 }));
  process.exit(0);
}

main();
