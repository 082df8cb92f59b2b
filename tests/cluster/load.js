// A load on a cluster by one client of Node: workers call keys in turn until standard input ends, then what is left of
// the small limits is used up. One JSON line for every some hundred calls, and at the end what came of all of them.
//
//   run(call, close): `call(key, limit)` resolves to the five integers

const PROGRESS_CALLS = 500;
const plan = JSON.parse(process.argv[2]);

const now = () => Number(process.hrtime.bigint()) / 1e9;
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
const pause = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

async function run(call, close) {
  let next = 0, calls = 0, isEnding = false;
  const errors = [], admitted = {}, denied = {}, longest = { seconds: 0, began: 0 };
  process.stdin.on("end", () => { isEnding = true; }).resume();
  process.on("unhandledRejection", (error) => errors.push([now(), now(), `nobody waited for: ${error?.message}`]));

  async function once(key, limit) {
    const began = now();
    try {
      const five = await call(key, limit);
      (Number(five[0]) === 1 ? (admitted[key] = (admitted[key] ?? 0) + 1) : (denied[key] = (denied[key] ?? 0) + 1));
      return Number(five[0]) === 1;
    } catch (error) {
      errors.push([began, now(), String(error?.message ?? error)]);
      return null;
    } finally {
      if (now() - began > longest.seconds) Object.assign(longest, { seconds: now() - began, began });
      if (++calls % PROGRESS_CALLS === 0) say({ calls });
    }
  }

  async function worker() {
    while (!isEnding) {
      const [key, limit] = plan.keys[next++ % plan.keys.length];
      await once(key, limit);
      await pause(plan.pause_ms);
    }
  }

  async function finish(keys) {
    for (const [key, limit] of keys) {
      for (let left = 2 * limit + 1; left > 0 && (await once(key, limit)) !== false; left--);
    }
  }

  await Promise.all(Array.from({ length: plan.workers }, worker));
  const small = plan.keys.filter(([, limit]) => limit < plan.far);
  const partOf = (part) => small.filter((_, place) => place % plan.workers === part);
  const parts = Array.from({ length: plan.workers }, (_, part) => partOf(part));
  await Promise.all(parts.map(finish));
  say({ calls, errors, admitted, denied, longest, ended: true });
  await close();
  process.exit(0);
}

module.exports = { plan, run };
