// One job: where it stands and why, what happened to it, what it prints, and what may be done to it.
import { get, pause, post } from '../api.js';
import { confirmed } from '../confirm.js';
import { h, keyed, setAttribute, setText, toast } from '../dom.js';
import { count, duration, NOTHING, number, relative, time, timeExact, timeFull } from '../format.js';
import { keepFresh, now_s } from '../live.js';
import { logView } from '../log.js';
import { link } from '../router.js';
import { mayControl, mayReadLogs } from '../session.js';
import { ENDED, PHASES, phases, placesText, sentence, summary } from '../story.js';

const EXPLAIN_EVERY_MS = 30000; // the twin looks ahead for it; the sentence changes slowly

const jobLinks = (ids) => ids.flatMap((id, i) => [i ? ', ' : '', h('a', { href: link('/jobs/:id', { id }) }, id)]);
const nodeLinks = (places) => places.map((place) => h('span.place', {}, h('a', { href: link('/nodes/:name', { name: place.node }) }, place.node),
  place.gpus.length ? placesText([[place.node, place.gpus, place.milli]]).slice(place.node.length) : ''));

/** The card that says why: a sentence with numbers, and when to expect what. */
const whyCard = () => {
  const title = h('h2', {}, 'Where it stands');
  const words = h('p.why');
  const expected = h('dl.expect');
  const others = h('p.soft');
  return {
    element: h('section.card.whycard', { 'aria-label': 'Where it stands' }, title, words, expected, others),
    show: (job, told) => {
      const now = now_s(), waits = ['waiting', 'suspended', 'blocked', 'held'].includes(job.state);
      setText(title, waits ? 'Why it waits' : job.state === 'running' ? 'Where it runs' : 'How it ended');
      setText(words, wordsOf(job, told));
      const rows = waits || job.state === 'running' ? [
        waits ? ['Expected start', expectedText(told?.expected_start_s, now), timeFull(told?.expected_start_s)] : null,
        ['Expected finish', expectedText(told?.expected_finish_s, now), timeFull(told?.expected_finish_s)],
        waits && told?.rank ? ['In the queue', `${number(told.rank)} of ${number(told.waiting)}`, 'its place under the present policy'] : null,
        waits && told?.quota_gpus !== null && told?.quota_gpus !== undefined
          ? ['Tenant holds', `${number(told.tenant_gpus)} of ${count(told.quota_gpus, 'GPU')}`, 'what its quota allows'] : null,
      ].filter(Boolean) : [];
      keyed(expected, rows, (row) => row[0], (row) => h('div', {}, h('dt', {}, row[0]), h('dd')), (element, row) => {
        setText(element.lastChild, row[1]);
        setAttribute(element, 'title', row[2] || null);
      });
      const parts = [];
      if (told?.note) parts.push(`Its length: ${told.note}. `);
      if (told?.waits_for?.length) parts.push('Makes room when it ends: ', ...jobLinks(told.waits_for), '. ');
      if (told?.ahead?.length) parts.push('Before it in the queue: ', ...jobLinks(told.ahead), '.');
      const said = JSON.stringify([told?.note, told?.waits_for, told?.ahead]);
      if (others.dataset.said !== said) { others.replaceChildren(...parts); others.dataset.said = said; }
    },
  };
};

const expectedText = (at_s, now) => (at_s ? `${relative(at_s, now)}, ${time(at_s, now)}` : 'not known');
const sentenceCase = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');

// the scheduler's sentences begin with what the job does ("needs 4 GPUs…") or with what became of it ("exit code 1")
const BEGINNINGS = [[/^it /, ''], [/^exit code/, 'it ended with '], [/^(killed|cancelled|suspended)/, 'it was '], [/./, 'it ']];

const wordsOf = (job, told) => {
  if (job.state === 'done') return 'It ended well.';
  const words = (told?.message || job.message || '').trim();
  if (words && job.state === 'refused') return sentenceCase(`it can never run here: ${words}`);
  if (words) return sentenceCase(BEGINNINGS.find(([form]) => form.test(words))[1] + words);
  if (job.state === 'blocked') return 'It waits for other jobs to end.';
  if (job.state === 'running') return 'It runs.';
  return job.reason ? sentenceCase(job.reason.replaceAll('-', ' ')) : 'It waits to be decided on.';
};

/** The bar of phases, and the journal's rows as a list. */
const timelineCard = () => {
  const bar = h('div.phases', { role: 'img' });
  const legend = h('ul.legend');
  const from = h('span'), to = h('span');
  const list = h('ol.events', { tabindex: '0', 'aria-label': 'What happened, in order' });
  return {
    element: h('section.card', { 'aria-label': 'Timeline' }, h('h2', {}, 'Timeline'), bar, h('div.axis', {}, from, to), legend,
      h('details', { open: true }, h('summary', {}, 'What happened'), list)),
    show: (events) => {
      const now = now_s(), found = phases(events);
      if (!found.length) return;
      const begin = found[0].from_s, end = found[found.length - 1].to_s ?? now, all = Math.max(end - begin, 1e-3);
      setAttribute(bar, 'aria-label', `Timeline: ${summary(found, now)}`);
      keyed(bar, found, (one) => one.from_s + one.phase, () => h('span'), (element, one) => {
        const until = one.to_s ?? now;
        element.className = `phase ${one.phase}${one.moved ? ' moved' : ''}`;
        element.style.setProperty('left', `${(100 * (one.from_s - begin)) / all}%`);
        element.style.setProperty('width', `max(${(100 * (until - one.from_s)) / all}%, 3px)`);
        setAttribute(element, 'title', `${PHASES[one.phase]} ${duration(until - one.from_s)}, ${timeExact(one.from_s, now)} to `
          + `${one.to_s === null ? 'now' : timeExact(one.to_s, now)}${one.places ? `\n${placesText(one.places)}` : ''}${one.moved ? '\nmoved' : ''}`);
      });
      const seen = [...new Set(found.map((one) => one.phase))];
      const sums = (phase) => found.filter((one) => one.phase === phase).reduce((sum, one) => sum + ((one.to_s ?? now) - one.from_s), 0);
      keyed(legend, seen, (phase) => phase, (phase) => h('li', {}, h(`i.swatch.${phase}`), h('span')), (element, phase) =>
        setText(element.lastChild, `${PHASES[phase]} ${duration(sums(phase))}`));
      setText(from, timeExact(begin, now));
      setText(to, found[found.length - 1].to_s === null ? 'now' : timeExact(end, now));
      let places = null;
      const rows = events.map((event) => {
        const row = { event, before: places };
        if (event.kind === 'start') places = event.args.places;
        return row;
      });
      keyed(list, rows, (row) => row.event.seq, ({ event, before }) => h('li', {},
        h('time', { title: timeFull(event.time_s) }, timeExact(event.time_s, now)), h('span', {}, sentence(event, before))), () => {});
    },
  };
};

const factsCard = () => {
  const list = h('dl.facts-list');
  const spec = h('pre.spec', { tabindex: '0', 'aria-label': 'The job as it was submitted' });
  const more = h('details', { hidden: true }, h('summary', {}, 'As it was submitted'), spec);
  return {
    element: h('section.card', { 'aria-label': 'Facts' }, h('h2', {}, 'Facts'), list, more),
    show: (job, ran_s) => {
      const now = now_s();
      const text = (value) => [value];
      const rows = [
        ['GPUs', text(number(job.gpus))],
        ['Tenant', text(job.tenant)],
        ['User', text(job.user)],
        ['Submitted', text(`${relative(job.submit_s, now)}, ${timeExact(job.submit_s, now)}`)],
        ['Waited', text(duration(Math.max((job.first_start_s ?? job.finished_s ?? now) - job.submit_s, 0)))],
        ['Ran', text(job.first_start_s === null ? NOTHING : `${duration(ran_s)}${job.run > 1 ? ` in ${job.run} runs` : ''}`)],
        job.finished_s === null ? null : ['Ended', text(`${relative(job.finished_s, now)}, ${timeExact(job.finished_s, now)}`)],
        job.preemptions ? ['Preempted', text(count(job.preemptions, 'time'))] : null,
        job.places.length ? ['On', nodeLinks(job.places)] : null,
        job.priority ? ['Priority', text(number(job.priority))] : null,
        job.array_id ? ['Task', text(`${job.array_index} of array ${job.array_id}`)] : null,
        job.exit_code === null ? null : ['Exit code', text(number(job.exit_code))],
        job.signal === null ? null : ['Signal', text(number(job.signal))],
      ].filter(Boolean);
      keyed(list, rows, (row) => row[0], (row) => h('div', {}, h('dt', {}, row[0]), h('dd')), (element, row) => {
        const fresh = h('dd', {}, row[1]);
        if (fresh.textContent !== element.lastChild.textContent) element.lastChild.replaceWith(fresh);
      });
      more.hidden = !job.spec;
      if (job.spec) setText(spec, JSON.stringify(job.spec, null, 2));
    },
  };
};

const actions = (job_id, again) => {
  const box = h('div.end', { role: 'group', 'aria-label': 'What may be done' });
  const act = async (what, ask) => {
    if (ask && !(await confirmed(ask, what === 'cancel' ? 'Cancel the job' : 'Suspend the job', 'Leave it'))) return;
    try {
      await post(`/v1/jobs/${encodeURIComponent(job_id)}/${what}`);
      toast({ cancel: 'The job is being cancelled.', suspend: 'The job is being suspended.', resume: 'The job may go on.' }[what]);
      again();
    } catch (error) {
      if (error.name !== 'AbortError') toast(error.message, 'error');
    }
  };
  const offers = {
    resume: () => h('button.primary', { type: 'button', onclick: () => act('resume') }, 'Resume'),
    suspend: () => h('button', { type: 'button', onclick: () => act('suspend', 'Take it off its GPUs, or out of the queue, until somebody resumes it?') }, 'Suspend'),
    cancel: () => h('button.danger', { type: 'button', onclick: () => act('cancel', 'Cancel this job? Its processes are stopped, and it ends.') }, 'Cancel'),
  };
  return {
    element: box,
    show: (job) => {
      const now = !mayControl(job) || ENDED.has(job.state) ? [] : job.state === 'held' ? ['resume', 'cancel']
        : job.state === 'blocked' ? ['cancel'] : ['suspend', 'cancel'];
      keyed(box, now, (name) => name, (name) => offers[name](), () => {});
    },
  };
};

export default {
  path: '/jobs/:id',
  under: '/jobs',
  title: ({ id }) => `Job ${id}`,
  mount: (root, { params: { id }, signal }) => {
    const path = `/v1/jobs/${encodeURIComponent(id)}`;
    const name = h('h1', {}, `Job ${id}`);
    const state = h('span.state', { role: 'status' });
    const why = whyCard(), line = timelineCard(), facts = factsCard();
    const can = actions(id, () => again());
    const log = h('section.card', { 'aria-label': 'Output' }, h('h2', {}, 'Output'));
    const main = h('div.jobgrid', { hidden: true }, h('div.column', {}, why.element, line.element, log), h('div.column', {}, facts.element));
    const gone = h('p.empty', { role: 'alert', hidden: true });
    root.append(h('div.pagehead', {}, h('div', {},
      h('p.crumb', {}, h('a', { href: '#/jobs' }, 'Jobs'), ` / ${id}`), name, h('p', {}, state)), can.element), gone, main);

    let events = [], last = 0, told = null, explained_ms = -Infinity, was = '', job = null, got_ms = 0;
    // by a clock that nobody sets; the time while the tab was hidden counts too
    const ran_s = () => job.ran_s + (job.state === 'running' && job.started_s !== null ? (performance.now() - got_ms) / 1000 : 0);
    const show = () => {
      setText(name, job.name ? job.name : `Job ${id}`);
      setAttribute(state, 'data-state', job.state);
      setText(state, job.state);
      why.show(job, told);
      line.show(events);
      facts.show(job, ran_s());
      can.show(job);
      main.hidden = false;
      root.dataset.shown = 'true';
    };
    const ask = async () => {
      try {
        job = await get(path, {}, signal);
        got_ms = performance.now();
      } catch (error) {
        if (error.status !== 404) throw error;
        main.hidden = true;
        gone.hidden = false;
        setText(gone, 'There is no such job, or it is not yours to see.');
        return;
      }
      const more = await get(`${path}/events`, { since: last }, signal);
      events = events.concat(more.events.filter((event) => event.seq > last));
      last = Math.max(last, events.length ? events[events.length - 1].seq : 0);
      const changed = job.state !== was;
      was = job.state;
      if (changed && log.children.length < 2) {
        log.append(mayReadLogs(job) ? logView(id, signal) : h('p.soft', {}, 'What jobs print is shown to who submitted them and to admins.'));
      }
      const ended = ENDED.has(job.state);
      if (ended) told = null;
      show();
      if (changed) explained_ms = -Infinity;
      if (!ended && performance.now() - explained_ms > EXPLAIN_EVERY_MS) {
        told = await get(`${path}/explain`, {}, signal);
        explained_ms = performance.now();
        show();
      }
    };
    const again = keepFresh(ask, signal, 2500);
    // clocks go on while nothing happens
    (async () => {
      while (!signal.aborted) {
        await pause(1000, signal);
        if (job && !signal.aborted && !document.hidden && !ENDED.has(job.state)) show();
      }
    })();
  },
};
