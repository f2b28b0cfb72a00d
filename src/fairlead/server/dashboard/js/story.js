// A job's journal as phases for the timeline and as sentences for the list.
import { count, duration } from './format.js';

/** States that a job never leaves. */
export const ENDED = new Set(['done', 'failed', 'cancelled', 'refused', 'lost']);

export const PHASES = {
  blocked: 'Waiting for other jobs', queued: 'Queued', starting: 'Starting', running: 'Running', suspended: 'Suspended', held: 'Held',
  stopping: 'Stopping',
};

const span = (gpus) => {
  const said = [];
  for (let i = 0; i < gpus.length;) {
    let j = i;
    while (j + 1 < gpus.length && gpus[j + 1] === gpus[j] + 1) j += 1;
    said.push(j > i ? `${gpus[i]}–${gpus[j]}` : `${gpus[i]}`);
    i = j + 1;
  }
  return said.join(', ');
};

/** "node-3, GPUs 0–3" for [[node, [gpus], milli], …]; many nodes are counted. */
export const placesText = (places) => {
  if (!places?.length) return '';
  if (places.length > 3) {
    const gpus = places.reduce((sum, [, own]) => sum + own.length, 0);
    return `${count(gpus, 'GPU')} on ${count(places.length, 'node')}`;
  }
  return places.map(([node, gpus, milli]) => {
    if (!gpus.length) return node;
    const share = milli < 1000 ? ` (${milli / 10} % of it)` : '';
    return `${node}, ${gpus.length === 1 ? 'GPU' : 'GPUs'} ${span(gpus)}${share}`;
  }).join('; ');
};

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** Phases {phase, from_s, to_s, places, moved} in order; the last one is open (`to_s` null) while the job lives. */
export const phases = (events) => {
  const found = [];
  let places = null, before = null;
  const enter = (phase, at_s, more = {}) => {
    const last = found[found.length - 1];
    if (last) {
      last.to_s = at_s;
      if (last.to_s <= last.from_s && found.length > 1) found.pop();
    }
    if (phase) found.push({ phase, from_s: at_s, to_s: null, places, ...more });
  };
  const blocked = events.some((event) => event.kind === 'admit');
  let phase = '', ran = false;
  for (const event of events) {
    const { kind, time_s, args } = event;
    if (kind === 'submit') phase = blocked ? 'blocked' : 'queued';
    else if (kind === 'admit') phase = 'queued';
    else if (kind === 'start') {
      before = places ?? before;
      places = args.places || [];
      enter('starting', time_s, { moved: before !== null && !same(before, places) });
      phase = 'starting';
      ran = true;
      continue;
    } else if (kind === 'started' || kind === 'resumed') phase = 'running';
    else if (kind === 'suspend' || kind === 'requeue') phase = 'suspended';
    else if (kind === 'hold') phase = 'held';
    else if (kind === 'release') phase = ran ? 'suspended' : 'queued';
    else if (kind === 'stop') phase = 'stopping';
    else if (kind === 'end') { enter(null, time_s); return found; } else continue;
    const last = found[found.length - 1];
    if (last?.phase === phase) continue;
    if (phase !== 'running' && phase !== 'stopping') { before = places ?? before; places = null; }
    enter(phase, time_s, phase === 'running' ? { moved: last?.moved } : {});
  }
  return found;
};

/** What a row of the journal says, in a sentence. */
export const sentence = (event, before) => {
  const { kind, args = {}, run } = event;
  const by = args.by ? ` by ${args.by}` : '';
  const more = args.message ? `: ${args.message}` : '';
  switch (kind) {
    case 'submit': return 'Submitted';
    case 'admit': return 'The jobs that it waited for have ended; it is in the queue';
    case 'start': {
      const moved = before && !same(before, args.places) ? ', moved from where it was' : '';
      return `Run ${run} begins on ${placesText(args.places) || 'a node'}${moved}`;
    }
    case 'started': return 'Its processes run';
    case 'resumed': return `Goes on where it was suspended${args.method ? ` (${args.method})` : ''}`;
    case 'suspend': return `Suspended by the policy${args.why ? `: ${args.why.replaceAll('_', ' ')}` : ''}`;
    case 'suspended': return `Off its GPUs${args.method ? ` (${args.method})` : ''}${more}`;
    case 'hold': return `Held${by}`;
    case 'release': return `Let go on${by}`;
    case 'stop': return `Told to stop${args.reason ? `: ${args.reason}` : ''}`;
    case 'requeue': return `Back in the queue${more}`;
    case 'restart': return `Begun afresh${more}`;
    case 'lost': return `A run was lost${more}`;
    case 'end': return `Ended: ${args.state}${args.message ? `, ${args.message}` : args.exit_code ? `, exit code ${args.exit_code}` : ''}`;
    default: return `${kind}${more}`;
  }
};

/** "queued 3 min, ran 2 h", for who can't see the timeline. */
export const summary = (found, now_s) => {
  const sums = new Map();
  for (const one of found) sums.set(one.phase, (sums.get(one.phase) || 0) + ((one.to_s ?? now_s) - one.from_s));
  return [...sums].map(([phase, seconds]) => `${PHASES[phase].toLowerCase()} ${duration(seconds)}`).join(', ');
};
