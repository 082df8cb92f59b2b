// Runs the cases of one client and prints one JSON line for each: {"case", "answer"} or {"case", "failed"}.
//
//   node <script>.mjs <port> <protocol> [<password> [<case> ...]]
//
// A case is `async (tools) => answer`. It starts on a server without keys and is given `tools.client`, connected;
// `tools.open()` makes more clients, and all are closed at its end. What only the outside can do, it asks for: `ask`
// prints {"ask"} and waits for a line on standard input.

import { createInterface } from "node:readline";

const CASE_MILLIS = 20_000;

// Unix times for RL.CLOCK SET, at which every common window begins: the clock starts at 2020 and never runs back.
export const NEXT_DAY = 1_577_836_800 + 86_400;
export const DAY_AFTER = NEXT_DAY + 86_400;

export const port = Number(process.argv[2]);
export const protocol = Number(process.argv[3]);
export const password = process.argv[4] || undefined;

const chosen = process.argv.slice(5);

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");

/** What the outside is asked for: it has been done when this returns. */
async function ask(what) {
  say({ ask: what });
  const { done } = await lines.next();
  if (done) throw new Error(`nobody answers to "${what}"`);
}

/** The message of the error that a promise ends with; a promise that ends well is a failure. */
export async function errorOf(promise) {
  let answer;
  try {
    answer = await promise;
  } catch (error) {
    return error.message;
  }
  throw new Error(`no error, but ${JSON.stringify(answer)}`);
}

/** Asks a condition again and again until it is so, for what another connection brings about. */
export async function eventually(condition) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5));
}

function within(millis, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end after ${millis} ms`)), millis);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// What a client leaves behind without anybody waiting for it is the fault of the case that runs.
const strays = [];
process.on("unhandledRejection", (error) => strays.push(error?.message ?? String(error)));

/** `open` connects a client, `close` ends it; `call(client, ...words)` sends one command as it is. */
export async function runCases(cases, { open, close, call }) {
  for (const [name, run] of Object.entries(cases)) {
    if (chosen.length > 0 && !chosen.includes(name)) continue;
    const opened = [];
    const openAnother = async (...options) => {
      const client = await open(...options);
      opened.push(client);
      return client;
    };
    try {
      const answer = await within(CASE_MILLIS, (async () => {
        const client = await openAnother();
        await call(client, "FLUSHALL");
        return run({ client, open: openAnother, ask, call: (...words) => call(client, ...words) });
      })());
      if (strays.length > 0) throw new Error(`nobody waited for: ${strays.join(", ")}`);
      say({ case: name, answer });
    } catch (error) {
      const [where] = error.stack.split("\n").filter((line) => line.includes(process.argv[1]));
      say({ case: name, failed: `${error.message}${where ?? ""}` });
    }
    strays.length = 0;
    for (const client of opened) {
      try {
        await close(client);
      } catch {
        // It has been closed by the case.
      }
    }
  }
  process.exit(0);
}
