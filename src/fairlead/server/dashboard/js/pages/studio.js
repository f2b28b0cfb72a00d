// The studio: a workload, a cluster, some policies; a simulation beside the scheduler, and what came of it.
import { get, pause, post, remove, withQuery } from '../api.js';
import { choices, field, problemBox, select, ticks } from '../choosing.js';
import { confirmed } from '../confirm.js';
import { h, keyed, setAttribute, setText, toast } from '../dom.js';
import { count, duration, memory, number, relative } from '../format.js';
import { now_s } from '../live.js';
import { go, link } from '../router.js';
import { isAdmin } from '../session.js';

const MOST = 8;
const EVERY_MS = 1000;

/** How much of it is done, 0 to 1. */
export const doneOf = (run) => (run.state === 'done' ? 1 : run.names.length ? (run.at + run.part) / run.names.length : 0);

/** What it is about just now, in words. */
export const progressOf = (run) => {
  if (run.state === 'queued') return run.before ? `${count(run.before, 'comparison')} before it` : 'begins in a moment';
  if (run.state === 'running') return run.at < run.names.length ? `${run.names[run.at]}, ${number(run.at + 1)} of ${number(run.names.length)}` : 'writing the report';
  if (run.state === 'done') return run.ended_s && run.begun_s ? `took ${duration(run.ended_s - run.begun_s)}` : '';
  return run.problem?.detail || '';
};

const kib = (bytes) => memory(Math.max(bytes / 2 ** 20, 0.1));

export default {
  path: '/studio',
  title: 'Studio',
  nav: { label: 'Studio', icon: 'studio' },
  mount: async (root, { signal, me }) => {
    const runs = h('div.runs');
    const none = h('p.empty', {}, me.role === 'viewer' ? 'Nobody has compared anything yet.' : 'Nothing has been compared yet. Choose a workload and some policies.');
    const listed = h('section.card.tablecard', { 'aria-label': 'Comparisons' }, none, runs);
    const answers = h('div.answers', {}, listed);
    const body = h('div', {}, answers);
    root.append(h('div.pagehead', {}, h('div', {}, h('h1', {}, 'Studio'),
      h('p', {}, 'Policies compared on a trace of yours or a made-up one. Simulations run one at a time, in a process of their own.'))), body);

    const act = async (does) => {
      try { await does(); await ask(); } catch (error) { if (!signal.aborted) toast(error.message, 'error'); }
    };
    const make = (run) => {
      const mine = me.role === 'admin' || (me.role === 'user' && run.user === me.user);
      const cancel = h('button', { type: 'button', onclick: () => act(() => post(`/v1/studio/runs/${run.id}/cancel`, {}, signal)) }, 'Cancel');
      const forget = h('button.plain', { type: 'button', 'aria-label': `Delete the comparison of ${run.names.join(', ')}`, onclick: async () => {
        if (await confirmed('Delete this comparison and its report?', 'Delete', 'Keep it')) act(() => remove(`/v1/studio/runs/${run.id}`, signal));
      } }, 'Delete');
      return h('article.run', {},
        h('div.what', {}, h('a', { href: link('/studio/:id', { id: run.id }) }, run.names.join(', ')),
          h('small', {}, `${run.workload} on ${run.cluster}`), h('small')),
        h('div.actions', {}, h('span.state'), mine ? cancel : null, mine ? forget : null),
        h('div.progress', { role: 'progressbar', 'aria-label': 'How much is done', 'aria-valuemin': 0, 'aria-valuemax': 100 }, h('i')));
    };
    const update = (element, run) => {
      const [what, actions, bar] = element.children;
      setText(what.lastChild, [progressOf(run), `${run.user}, ${relative(run.made_s, now_s())}`].filter(Boolean).join(' · '));
      setAttribute(actions.firstChild, 'data-state', run.state);
      setText(actions.firstChild, run.state);
      const live = run.state === 'queued' || run.state === 'running';
      if (actions.children[1]) actions.children[1].hidden = !live;
      if (actions.children[2]) actions.children[2].hidden = live;
      bar.hidden = !live;
      setAttribute(bar, 'aria-valuenow', Math.round(100 * doneOf(run)));
      bar.firstChild.style.setProperty('width', `${100 * doneOf(run)}%`);
    };
    const ask = async () => {
      const found = (await get('/v1/studio/runs', {}, signal)).runs;
      keyed(runs, found, (run) => run.id, make, update);
      none.hidden = found.length > 0;
      root.dataset.shown = 'true';
      return found.some((run) => run.state === 'queued' || run.state === 'running');
    };

    if (me.role !== 'viewer') {
      const form = h('form.card.form', { 'aria-label': 'A new comparison' });
      body.className = 'simulate';
      body.prepend(form);
      try { await fill(form, signal, act); } catch (error) { if (!signal.aborted) form.append(problemBox(error)); }
    }
    while (!signal.aborted) {
      let live = false;
      try { if (!document.hidden) live = await ask(); } catch (error) { if (signal.aborted) return; }
      await pause(live ? EVERY_MS : 4 * EVERY_MS, signal);
    }
  },
};

/** The form: three steps and a button. */
const fill = async (form, signal, act) => {
  const [known, offers] = await Promise.all([choices(), get('/v1/studio', {}, signal)]);
  if (signal.aborted) return;
  const wrong = h('div');
  let kind = 'generator';

  // -- the workload: made up
  const generator = select(offers.generators, 'philly-like');
  const about = h('span.hint');
  const jobs = h('input', { type: 'number', min: 1, max: 1000000, value: 5000, required: true });
  const gpus = h('input', { type: 'number', min: 1, max: 1000000, value: 256, required: true });
  const load = h('input', { type: 'number', min: 0.05, max: 10, step: 0.05, value: 0.9, required: true });
  const seed = h('input', { type: 'number', min: 0, max: 4294967295, value: 1, required: true });
  const tell = () => setText(about, offers.generators.find((one) => one.name === generator.value)?.summary || '');
  generator.addEventListener('change', tell);
  tell();
  const made = h('div.field', {}, field('Like', generator), about, h('div.pairs', {},
    field('Jobs', jobs), field('For so many GPUs', gpus), field('Load', load, 'Asked for, over what there is.'), field('Seed', seed)));

  // -- the workload: a trace
  const traces = h('div.traces', { role: 'radiogroup', 'aria-label': 'Your traces' });
  const file = h('input', { type: 'file' });
  const send = h('button', { type: 'button' }, 'Upload');
  const drop = h('div.filedrop', {}, field('Upload a trace', file, `CSV, Parquet or another format that is told by its content; up to ${kib(offers.upload_bytes)}.`), send);
  const bad = h('div');
  const lived = !isAdmin() ? null : h('button', { type: 'button', onclick: () => act(async () => {
    const kept = await post('/v1/studio/traces/lived', {}, signal);
    toast(`${kept.name}: ${count(kept.about.jobs, 'job')} that this scheduler ran.`);
    await listTraces(kept.id);
  }) }, 'Take what ran here');
  const brought = h('div.field', { hidden: true }, traces, drop, lived, bad);
  const listTraces = async (chosen = '') => {
    const found = (await get('/v1/studio/traces', {}, signal)).traces;
    const was = chosen || traces.querySelector('input:checked')?.value || found[0]?.id;
    keyed(traces, found, (one) => one.id, (one) => h('div.tracerow', {},
      h('label.option', {}, h('input', { type: 'radio', name: 'trace', value: one.id }),
        h('span', {}, one.name, h('small', {}, `${count(one.about.jobs, 'job')} over ${duration(one.about.span_s)}, ${number(Math.round(one.about.gpu_hours))} GPU-hours`))),
      h('button.plain', { type: 'button', 'aria-label': `Delete ${one.name}`, onclick: async () => {
        if (await confirmed(`Delete ${one.name}?`, 'Delete', 'Keep it')) act(async () => { await remove(`/v1/studio/traces/${one.id}`, signal); await listTraces(); });
      } }, '×')), () => {});
    const box = [...traces.querySelectorAll('input')].find((one) => one.value === was);
    if (box) box.checked = true;
  };
  const upload = async () => {
    const given = file.files[0];
    bad.replaceChildren();
    if (!given) { bad.append(problemBox({ message: 'Choose a file first.' })); return; }
    if (given.size > offers.upload_bytes) {
      bad.append(problemBox({ told: { detail: `${given.name} has ${kib(given.size)}, which is more than is taken`, accepts: `up to ${kib(offers.upload_bytes)}` } }));
      return;
    }
    send.disabled = true;
    setText(send, 'Reading it…');
    try {
      const kept = await post(withQuery('/v1/studio/traces', { name: given.name }), given, signal);
      toast(`${kept.name}: ${count(kept.about.jobs, 'job')}.`);
      file.value = '';
      await listTraces(kept.id);
    } catch (error) {
      if (!signal.aborted) bad.append(problemBox(error));
    }
    send.disabled = false;
    setText(send, 'Upload');
  };
  send.addEventListener('click', upload);
  for (const [name, over] of [['dragover', true], ['dragleave', false], ['drop', false]]) {
    drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.toggle('over', over); });
  }
  drop.addEventListener('drop', (event) => { if (event.dataTransfer.files.length) { file.files = event.dataTransfer.files; upload(); } });
  await listTraces();

  const segment = (label, value) => h('button', { type: 'button', 'aria-pressed': String(value === kind), onclick: () => {
    kind = value;
    [...segments.children].forEach((one) => one.setAttribute('aria-pressed', String(one === chosen[value])));
    made.hidden = kind !== 'generator';
    brought.hidden = kind !== 'trace';
    for (const one of made.querySelectorAll('input')) one.disabled = made.hidden;
  } }, label);
  const chosen = { generator: segment('Made up', 'generator'), trace: segment('A trace', 'trace') };
  const segments = h('div.segments', { role: 'group', 'aria-label': 'Where the workload comes from' }, chosen.generator, chosen.trace);

  // -- the rest
  const cluster = h('input', { type: 'text', value: '32x8', autocomplete: 'off', maxlength: '200' });
  const policies = ticks('Policies to compare', known.policies, ['fifo', 'las', 'tiresias'], MOST);
  const placer = select(known.placers, 'consolidate');
  const run = h('button.primary', { type: 'submit' }, 'Run');
  form.append(
    h('fieldset', {}, h('legend', {}, 'Workload'), segments, made, brought),
    h('fieldset', {}, h('legend', {}, 'Cluster'), field('Nodes × GPUs', cluster, 'Such as 32x8 or 16x8@V100+4x8@H200. Empty: the nodes that are here.')),
    h('fieldset', {}, h('legend', {}, 'Policies'), policies.element, field('Placer', placer)),
    wrong, h('div.formend', {}, run));

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    wrong.replaceChildren();
    const trace = traces.querySelector('input:checked')?.value;
    if (kind === 'trace' && !trace) { wrong.append(problemBox({ message: 'Upload a trace first, or choose one.' })); return; }
    const source = kind === 'trace' ? { trace } : { generator: {
      name: generator.value, jobs: Number(jobs.value), gpus: Number(gpus.value), load: Number(load.value), seed: Number(seed.value) } };
    run.disabled = true;
    try {
      const begun = await post('/v1/studio/runs', { ...source, cluster: cluster.value.trim() || null, policies: policies.chosen(), placers: [placer.value] }, signal);
      go(link('/studio/:id', { id: begun.id }));
    } catch (error) {
      if (!signal.aborted) wrong.append(problemBox(error));
    }
    run.disabled = false;
  });
};
