// What if: the twin runs the jobs at hand on, as things are and as they might be, side by side. Nothing changes until an admin says so.
import { get, pause, post, put } from '../api.js';
import { chart } from '../charts.js';
import { choices, field, problemBox, select, ticks } from '../choosing.js';
import { confirmed } from '../confirm.js';
import { h, setText, toast } from '../dom.js';
import { count, duration, NOTHING, number, percent, time } from '../format.js';
import { now_s } from '../live.js';
import { isAdmin } from '../session.js';
import { tone } from '../theme.js';

const MOST = 4, PATIENCE = 10, AGAIN_MS = 1000;
const names = (row) => [row.policy, row.placer].join(' / ');
const nodesOf = (row) => [row.add_nodes && `with ${row.add_nodes} more`, row.remove_nodes.length && `without ${row.remove_nodes.join(', ')}`]
  .filter(Boolean).join(', ');

/** By how much it differs from what is in force; less is better for all that is compared so. */
const delta = (value, base, better = -1) => {
  if (value === null || base === null || base === undefined || value === undefined) return null;
  const change = base ? (value - base) / base : value ? Infinity : 0;
  if (Math.abs(change) < 0.005) return h('span.delta', {}, 'the same');
  const good = Math.sign(change) === better;
  const said = Number.isFinite(change) ? `${change > 0 ? '+' : '−'}${percent(Math.abs(change))}` : 'from none';
  return h(`span.delta.${good ? 'good' : 'bad'}`, {}, said);
};

const lines = (rows, pick, now) => {
  const length = rows[0].coming.length_s, points = rows[0].coming.held_gpus.length;
  const x = Array.from({ length: points }, (_, i) => new Date((now + ((i + 0.5) * length) / points) * 1000));
  return rows.map((row, i) => ({ type: 'scatter', mode: 'lines', name: row.label, x, y: pick(row.coming), meta: { tone: i },
    line: { shape: 'linear' }, hovertemplate: '%{y:,.3~g}' }));
};

// the table above has the keys: its rows are the lines
const overTime = (y) => ({ showlegend: false, hovermode: 'x unified', xaxis: { type: 'date' }, yaxis: { title: { text: y }, rangemode: 'tozero' }, margin: { l: 56, r: 12, t: 8, b: 44 } });
const mean = (values) => values.reduce((sum, one) => sum + one, 0) / Math.max(values.length, 1);

const said = (rows, pick, what) => {
  const means = rows.map((row) => mean(pick(row.coming)));
  const low = means.indexOf(Math.min(...means)), high = means.indexOf(Math.max(...means));
  const first = `${number(Math.round(means[high] * 10) / 10)} ${what} on average under ${rows[high].label}`;
  return low === high || means[high] - means[low] < 0.05 ? `${first}; it makes no difference.` : `${first}, ${number(Math.round(means[low] * 10) / 10)} under ${rows[low].label}.`;
};

/** When half of the jobs have ended, soonest first. */
const halfway = (rows, now) => {
  const found = rows.map((row) => {
    const { ended_jobs: ended, length_s: length } = row.coming;
    const at = ended.findIndex((one) => one >= row.jobs / 2);
    return { label: row.label, at_s: at < 0 ? Infinity : now + ((at + 0.5) * length) / ended.length };
  }).sort((a, b) => a.at_s - b.at_s);
  const by = (one) => (Number.isFinite(one.at_s) ? `by ${time(one.at_s, now)} under ${one.label}` : `later than this under ${one.label}`);
  return `Half of the jobs have ended ${found.map(by).join(', ')}.`;
};

/** One at a time for each user: one that this page asked for and left may still be at its last row, so it is asked again. */
const simulated = async (body, signal) => {
  for (let left = PATIENCE; ; left -= 1) {
    try {
      return await post('/v1/whatif', body, signal);
    } catch (error) {
      if (error.status !== 429 || !left) throw error;
    }
    await pause(AGAIN_MS, signal);
  }
};

export default {
  path: '/whatif',
  title: 'What if',
  nav: { label: 'What if', icon: 'whatif' },
  mount: async (root, { signal }) => {
    const answers = h('div.answers', { 'aria-live': 'polite' });
    const form = h('form.card.form', { 'aria-label': 'What should be different' });
    root.append(
      h('div.pagehead', {}, h('div', {}, h('h1', {}, 'What if'),
        h('p', {}, 'The jobs at hand run on in the simulator: once as things are, once for each choice. Nothing is changed by asking.'))),
      h('div.simulate', {}, form, answers));
    let known, nodes, present;
    try {
      [known, { nodes }, present] = await Promise.all([choices(), get('/v1/nodes', {}, signal), get('/v1/policy', {}, signal)]);
    } catch (error) {
      if (!signal.aborted) answers.append(problemBox(error));
      return;
    }
    if (signal.aborted) return;

    const others = known.policies.filter((row) => row.name !== present.policy);
    const policies = ticks('Policies to try', others, [], MOST);
    const written = h('input', { type: 'text', placeholder: 'tiresias:thresholds=3200', autocomplete: 'off', maxlength: '200' });
    const placer = select(known.placers, '', `as it is: ${present.placer}`);
    const more = h('input', { type: 'text', placeholder: '2x8', autocomplete: 'off', maxlength: '200' });
    const list = h('datalist', { id: 'node-names' }, nodes.slice(0, 2000).map((node) => h('option', { value: node.name })));
    const fewer = h('input', { type: 'text', placeholder: nodes[0].name, list: 'node-names', autocomplete: 'off' });
    const ask = h('button.primary', { type: 'submit' }, 'Compare');
    form.append(
      h('fieldset', {}, h('legend', {}, 'Who runs'), policies.element,
        field('With parameters', written, 'A policy as the command line takes it, beside those that are ticked.')),
      h('fieldset', {}, h('legend', {}, 'Where'), field('Placer', placer),
        h('div.pairs', {},
          field('Nodes to add', more, 'Nodes × GPUs each.'),
          field('Nodes to remove', fewer, 'Names, with commas.')), list),
      h('div.formend', {}, ask));

    const switchTo = async (row) => {
      const to = names(row), from = names(present);
      const question = `Switch from ${from} to ${to}? Jobs go on; from the next decision on the new policy says who runs.`;
      if (!await confirmed(question, 'Switch', 'Leave it')) return;
      try {
        present = await put('/v1/policy', { policy: row.policy, placer: row.placer }, signal);
        toast(`${names(present)} decides from now on.`);
        answers.replaceChildren();
        await compare();
      } catch (error) {
        if (!signal.aborted) toast(error.message, 'error');
      }
    };

    const line = (row, first, i, now) => {
      const key = h('span.key', { 'aria-hidden': 'true', style: { '--key': tone(`t${i}`) } });
      const differs = i > 0 && !row.error && (row.policy !== present.policy || row.placer !== present.placer);
      const head = h('th.rowname', { scope: 'row' }, h('b', {}, key, row.policy),
        h('small', {}, [i === 0 ? 'as it is' : '', row.placer, nodesOf(row), row.never ? `${count(row.never, 'job')} can’t run` : ''].filter(Boolean).join(' · ')),
        isAdmin() && differs ? h('button', { type: 'button', 'aria-label': `Switch to ${names(row)}`, onclick: () => switchTo(row) }, 'Switch to it') : null);
      if (row.error) return h('tr', {}, head, h('td', { colspan: 6 }, h('div.problem', {}, row.error)));
      const cell = (text, change) => h('td.number', {}, text, i > 0 ? change : null);
      return h('tr', {}, head,
        cell(duration(row.wait_s.mean), delta(row.wait_s.mean, first.wait_s.mean)),
        cell(duration(row.wait_s.p95), delta(row.wait_s.p95, first.wait_s.p95)),
        cell(duration(row.jct_s.mean), delta(row.jct_s.mean, first.jct_s.mean)),
        cell(row.last_end_s === null ? NOTHING : time(row.last_end_s, now), null),
        cell(percent(row.gpu_utilization), null),
        cell(number(row.preemptions), null));
    };

    const show = (rows) => {
      const now = now_s(), first = rows[0];
      rows.forEach((row, i) => { row.label = i === 0 ? `${row.policy} (as it is)` : [row.placer === first.placer ? row.policy : names(row), nodesOf(row)].filter(Boolean).join(', '); });
      const heads = ['Choice', 'Mean wait', 'Wait p95', 'Mean JCT', 'Last ends', 'GPUs in use', 'Suspensions'];
      const table = h('table', {}, h('thead', {}, h('tr', {}, heads.map((head, i) => h(`th${i ? '.number' : ''}`, { scope: 'col' }, head)))),
        h('tbody', {}, rows.map((row, i) => line(row, first, i, now))));
      const drawn = rows.filter((row) => row.coming);
      const length = drawn.length ? first.coming.length_s : 0;
      const hours = duration(length > 7200 ? Math.round(length / 3600) * 3600 : length > 120 ? Math.round(length / 60) * 60 : length);
      const note = first.assumed ? ` Of ${count(first.assumed, 'job')} nobody has said how long they take; a day is assumed, or as long again as they have run.` : '';
      answers.replaceChildren(h('section.card.tablecard', { 'aria-label': 'Comparison' },
        h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'Comparison, a choice a row' }, table),
        h('p.pager', {}, `${count(first.jobs, 'job')} that wait or run now; waits are from now on.${note}`)));
      if (!drawn.length || !first.jobs) return;
      const cards = [
        [`GPUs in use, the next ${hours}`, (coming) => coming.held_gpus, 'GPUs', 'GPUs are in use'],
        [`Jobs waiting, the next ${hours}`, (coming) => coming.waiting_jobs, 'jobs', 'jobs wait'],
        [`Jobs ended, the next ${hours}`, (coming) => coming.ended_jobs, 'jobs', null],
      ].map(([title, pick, unit, what]) => {
        const plot = chart(title, signal);
        return { plot, figure: { data: lines(drawn, pick, now), layout: overTime(unit) }, card: h('section.card', {}, h('h2', {}, title), h('p', {}, what ? said(drawn, pick, what) : halfway(drawn, now)), plot.element) };
      });
      const tenants = Object.keys(first.tenant_wait_s);
      if (tenants.length) {
        const title = 'Mean wait by tenant';
        const plot = chart(title, signal);
        const minutes = Math.max(...drawn.flatMap((row) => Object.values(row.tenant_wait_s))) >= 7200 ? 3600 : 60;
        const data = drawn.map((row, i) => ({ type: 'bar', name: row.label, x: tenants, y: tenants.map((tenant) => (row.tenant_wait_s[tenant] ?? 0) / minutes), meta: { tone: i }, hovertemplate: '%{y:,.3~g}' }));
        const worst = tenants.reduce((a, b) => (first.tenant_wait_s[a] >= first.tenant_wait_s[b] ? a : b));
        const others = drawn.slice(1).map((row) => `${duration(row.tenant_wait_s[worst])} under ${row.label}`);
        const words = `${worst} waits longest as things are: ${duration(first.tenant_wait_s[worst])} on average${others.length ? `; ${others.join(', ')}` : ''}.`;
        cards.push({ plot, figure: { data, layout: { barmode: 'group', bargap: 0.3, showlegend: false, xaxis: { type: 'category' }, yaxis: { title: { text: minutes === 60 ? 'minutes' : 'hours' }, rangemode: 'tozero' }, margin: { l: 56, r: 12, t: 8, b: 28 } } },
          card: h('section.card', {}, h('h2', {}, title), h('p', {}, words), plot.element) });
      }
      answers.append(h('div.charts', {}, cards.map((one) => one.card)));
      cards.forEach((one) => one.plot.draw(one.figure));
    };

    const compare = async () => {
      ask.disabled = true;
      setText(ask, 'Simulating…');
      const chosen = [...policies.chosen(), written.value.trim()].filter(Boolean);
      const body = {
        policies: chosen, placer: placer.value || null, add_nodes: more.value.trim() || null,
        remove_nodes: fewer.value.split(',').map((one) => one.trim()).filter(Boolean),
      };
      try {
        const { rows } = await simulated(body, signal);
        if (!signal.aborted) show(rows);
      } catch (error) {
        if (!signal.aborted) answers.replaceChildren(problemBox(error));
      }
      ask.disabled = false;
      setText(ask, 'Compare');
      root.dataset.shown = 'true';
    };
    form.addEventListener('submit', (event) => { event.preventDefault(); compare(); });
    await compare();
  },
};
