// What is new, once a second at most: one stream of counts for the whole tab. Its `last_event` says whether to ask again.
import { events, pause, Problem } from './api.js';

let latest = null;
let connected = false;
const told = new Set();
const tellAll = () => told.forEach((tell) => tell(latest, connected));

/** The counts of GET /v1/cluster as they were last told, null before that. */
export const counts = () => latest;

/** The scheduler's own time in seconds: this machine's clock may be off. */
let ahead_s = 0;
export const now_s = () => Date.now() / 1000 + ahead_s;

/** `tell(counts, connected)` now and with every message, until `signal`. */
export const onCounts = (tell, signal) => {
  told.add(tell);
  signal.addEventListener('abort', () => told.delete(tell));
  if (latest) tell(latest, connected);
};

const say = (is) => {
  if (connected !== is) {
    connected = is;
    tellAll();
  }
};

/** Follows until `signal`; a stream that breaks is taken up again, later each time. */
export const follow = async (signal) => {
  for (let tries = 0; !signal.aborted;) {
    try {
      for await (const message of events('/v1/cluster', { follow: true }, signal)) {
        latest = JSON.parse(message.data);
        ahead_s = latest.now_s - Date.now() / 1000;
        connected = true;
        tries = 0;
        tellAll();
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status === 401) return;
    }
    say(false);
    tries += 1;
    await pause(Math.min(500 * 2 ** tries, 15000), signal);
  }
};

// times pass and GPUs are busy or idle though the journal has nothing new
const OLD_MS = 10000;

/**
 * Runs `ask` now and again whenever something has happened, it has failed or its answer is old, no sooner than `every_ms` after it
 * began last and never twice at once; not at all while nobody looks. Where `ask` returns the number of the last journal row that its
 * answer knows of, it is asked again until that is the newest: answers are kept for a moment by the scheduler. Returns a function that
 * asks at once, or as soon as the question that is under way is answered.
 */
export const keepFresh = (ask, signal, every_ms = 2000) => {
  let seen = -1, began = 0, asking = false, again = false, urgent = false, timer = 0;
  const run = async () => {
    if (signal.aborted) return;
    if (asking) { again = true; return; }
    asking = true;
    again = urgent = false;
    began = performance.now();
    seen = latest?.last_event ?? -1;
    try {
      const knows = await ask();
      if (typeof knows === 'number' && latest && knows < latest.last_event) again = true;
    } catch (error) {
      seen = -1;
      if (error.name !== 'AbortError') report(error);
    }
    asking = false;
    if (urgent) run();
    else if (again) soon();
  };
  const soon = () => {
    if (timer || signal.aborted || document.hidden) return;
    timer = setTimeout(() => { timer = 0; if (!document.hidden) run(); }, Math.max(every_ms - (performance.now() - began), 0));
  };
  const isOld = () => !asking && performance.now() - began > OLD_MS;
  const look = () => { if (latest && (again || latest.last_event !== seen || isOld())) soon(); };
  onCounts(look, signal);
  document.addEventListener('visibilitychange', look, { signal });
  signal.addEventListener('abort', () => clearTimeout(timer));
  run();
  return () => { if (asking) urgent = true; else run(); };
};

/** What went wrong while nobody asked for anything: told once, by the shell. */
let report = () => {};
export const whenItFails = (does) => { report = does; };
