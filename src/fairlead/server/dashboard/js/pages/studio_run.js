// One comparison: how far it is, its figures, and its report in a frame that knows nothing of whoever looks at it.
import { get, pause, post } from '../api.js';
import { problemBox } from '../choosing.js';
import { h, setAttribute, setText, toast } from '../dom.js';
import { duration, number, percent, timeFull } from '../format.js';
import { link } from '../router.js';
import { tone } from '../theme.js';
import { doneOf, progressOf } from './studio.js';

const EVERY_MS = 700;

const table = (run) => {
  const heads = ['Policy', 'Finished', 'Mean JCT', 'JCT p95', 'Mean wait', 'Wait p95', 'GPUs held', 'Makespan', 'Suspensions'];
  return h('table', {}, h('thead', {}, h('tr', {}, heads.map((head, i) => h(`th${i ? '.number' : ''}`, { scope: 'col' }, head)))),
    h('tbody', {}, run.results.map((row, i) => h('tr', {},
      h('th.rowname', { scope: 'row' }, h('b', {}, h('span.key', { 'aria-hidden': 'true', style: { '--key': tone(`t${i % 12}`) } }), row.name)),
      [number(row.finished), duration(row.jct_s.mean), duration(row.jct_s.p95), duration(row.wait_s.mean), duration(row.wait_s.p95),
        percent(row.gpu_utilization), duration(row.makespan_s), number(row.preemptions)].map((text) => h('td.number', {}, text))))));
};

export default {
  path: '/studio/:id',
  under: '/studio',
  title: 'A comparison',
  mount: async (root, { params, signal, me }) => {
    const said = h('p', { role: 'status' });
    const state = h('span.state');
    const fill = h('i');
    const bar = h('div.bar', { role: 'progressbar', 'aria-label': 'How much is done', 'aria-valuemin': 0, 'aria-valuemax': 100 }, fill);
    const title = h('h1', {}, 'A comparison');
    const actions = h('div.end');
    const answers = h('div.answers');
    const path = `/v1/studio/runs/${encodeURIComponent(params.id)}`;
    root.append(h('div.pagehead', {}, h('div', {}, h('p.crumb', {}, h('a', { href: link('/studio') }, 'Studio')), title, said), actions), answers);
    const card = h('section.card', { 'aria-label': 'Progress' }, state, h('p.soft', {}, ''), bar);
    answers.append(card);

    const ticket = async () => (await post(`${path}/ticket`, {}, signal)).path;
    const open = async (download) => {
      try {
        const at = await ticket();
        h('a', download ? { href: at, download: `fairlead-${params.id}.html` } : { href: at, target: '_blank', rel: 'noopener' }).click();
      } catch (error) {
        if (!signal.aborted) toast(error.message, 'error');
      }
    };
    const cancel = h('button', { type: 'button', onclick: () => post(`${path}/cancel`, {}, signal).catch((error) => toast(error.message, 'error')) }, 'Cancel');

    const show = async (run) => {
      answers.replaceChildren(h('section.card.tablecard', { 'aria-label': 'Figures' },
        h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'Figures, a policy a row' }, table(run))));
      actions.replaceChildren(
        h('button', { type: 'button', onclick: () => open(false) }, 'Open in a new tab'),
        h('button.primary', { type: 'button', onclick: () => open(true) }, 'Download the report'));
      const frame = h('iframe.report', { sandbox: 'allow-scripts allow-downloads', title: 'The report', src: await ticket() });
      frame.addEventListener('load', () => { root.dataset.shown = 'true'; }, { once: true });
      answers.append(frame);
    };

    while (!signal.aborted) {
      let run;
      try {
        run = await get(path, {}, signal);
      } catch (error) {
        if (signal.aborted) return;
        if (error.status === 404) { answers.replaceChildren(problemBox(error)); return; }
        await pause(2000, signal);
        continue;
      }
      setText(title, run.names.join(', '));
      setText(said, `${run.workload} on ${run.cluster}. ${run.user}, ${timeFull(run.made_s)}.`);
      setAttribute(state, 'data-state', run.state);
      setText(state, run.state);
      setText(card.children[1], progressOf(run));
      setAttribute(bar, 'aria-valuenow', Math.round(100 * doneOf(run)));
      fill.style.setProperty('width', `${100 * doneOf(run)}%`);
      if (run.state === 'done') { if (!signal.aborted) await show(run); return; }
      if (run.state === 'failed' || run.state === 'cancelled') {
        actions.replaceChildren();
        bar.hidden = true;
        if (run.problem) answers.append(problemBox({ told: run.problem }));
        return;
      }
      if (!actions.children.length && (me.role === 'admin' || (me.role === 'user' && run.user === me.user))) actions.append(cancel);
      await pause(EVERY_MS, signal);
    }
  },
};
