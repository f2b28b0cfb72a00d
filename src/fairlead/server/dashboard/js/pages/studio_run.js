// One comparison: how far it is, and then its report, in a frame that knows nothing of whoever looks at it.
import { get, pause, post } from '../api.js';
import { problemBox } from '../choosing.js';
import { h, setAttribute, setText, toast } from '../dom.js';
import { timeFull } from '../format.js';
import { link } from '../router.js';
import { doneOf, progressOf } from './studio.js';

const EVERY_MS = 700;

export default {
  path: '/studio/:id',
  under: '/studio',
  title: 'A comparison',
  mount: async (root, { params, signal, me }) => {
    const said = h('p', { role: 'status' });
    const state = h('span.state');
    const fill = h('i');
    const bar = h('div.progress', { role: 'progressbar', 'aria-label': 'How much is done', 'aria-valuemin': 0, 'aria-valuemax': 100 }, fill);
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

    const show = async () => {
      actions.replaceChildren(
        h('button', { type: 'button', onclick: () => open(false) }, 'Open in a new tab'),
        h('button.primary', { type: 'button', onclick: () => open(true) }, 'Download the report'));
      // the frame can't see which theme was chosen here, so its address says so
      const theme = document.documentElement.dataset.theme;
      const frame = h('iframe.report', { sandbox: 'allow-scripts allow-downloads', title: 'The report', src: `${await ticket()}#${theme}` });
      frame.addEventListener('load', () => { root.dataset.shown = 'true'; }, { once: true });
      answers.replaceChildren(frame);
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
      if (run.state === 'done') { if (!signal.aborted) await show(); return; }
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
