// How the cluster is used, by whom, and who waits: charts from the journal, and figures of this moment.
import { get } from '../api.js';
import { chart } from '../charts.js';
import { h, keyed, setAttribute, setText } from '../dom.js';
import { count, duration, NOTHING, number, percent } from '../format.js';
import { keepFresh } from '../live.js';
import { link, rememberQuery } from '../router.js';

const SPANS = { '1h': '1 hour', '6h': '6 hours', '1d': '1 day', '7d': '7 days' };
const REASONS = {
  held: 'Held by a person', blocked: 'Waits for other jobs', 'quota-used': 'Tenant’s quota is used', 'not-enough-free': 'Needs more GPUs than are free',
  fragmented: 'Free GPUs are not on one node', 'behind-others': 'Fits; others are before it',
};
const TICKS = [[1, '1 s'], [10, '10 s'], [60, '1 min'], [600, '10 min'], [3600, '1 h'], [36000, '10 h'], [86400, '1 d'], [604800, '7 d']];

const mean = (values) => (values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : 0);
const dates = (seconds) => seconds.map((one) => new Date(one * 1000));
const plain = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
const cut = (text) => plain(text.length > 22 ? `${text.slice(0, 20)}…` : text);
const timeAxis = () => ({ type: 'date', showgrid: false, fixedrange: false, nticks: 7, tickformatstops: [
  { dtickrange: [null, 60000], value: '%H:%M:%S' }, { dtickrange: [60000, 43200000], value: '%H:%M' }, { dtickrange: [43200000, null], value: '%b %-d' }] });

/** A card with a title, a sentence that says what to see, and a chart. */
const card = (title, label, signal, size, wide = false) => {
  const sentence = h('p.soft');
  const drawn = chart(label, signal, size);
  return { element: h(`section.card.chartcard${wide ? '.wide' : ''}`, { 'aria-label': title }, h('h2', {}, title), sentence, drawn.element), sentence, draw: drawn.draw, plot: drawn.element };
};

const usage = (now) => ({
  data: [
    { type: 'scatter', mode: 'lines', name: 'allocated', x: dates(now.time_s), y: now.allocated, fill: 'tozeroy', meta: { tone: 't0', fill: '2e' }, line: { shape: 'hv', width: 1.8 },
      hovertemplate: '%{y:,.1f} GPUs' },
    { type: 'scatter', mode: 'lines', name: 'computing', x: dates(now.time_s), y: now.computing, meta: { tone: 't1' }, line: { shape: 'hv', width: 1.6 }, hovertemplate: '%{y:,.1f} GPUs' },
    { type: 'scatter', mode: 'lines', name: 'all GPUs', x: dates([now.from_s, now.until_s]), y: [now.gpus, now.gpus], meta: { tone: 'soft' }, line: { dash: 'dot', width: 1.4 },
      hovertemplate: '%{y:,} GPUs' },
  ],
  layout: { xaxis: timeAxis(), yaxis: { rangemode: 'tozero', range: [0, now.gpus * 1.06], fixedrange: true, nticks: 6 }, hovermode: 'x unified', showlegend: true },
});

const bars = (names, values, tones, text) => ({
  data: [{ type: 'bar', orientation: 'h', y: names, x: values, text, textposition: 'auto', cliponaxis: false, meta: { tone: tones }, hovertemplate: '%{y}: %{text}<extra></extra>' }],
  layout: {
    xaxis: { rangemode: 'tozero', fixedrange: true, nticks: 6, tickformat: ',d' },
    // a single bar is not to fill the card
    yaxis: { automargin: true, range: [Math.max(names.length, 4) - 0.5, -0.5], fixedrange: true, ticksuffix: '  ', showgrid: false }, bargap: 0.35, margin: { l: 10, r: 24, t: 8, b: 28 },
  },
});

const waits = (tenants) => {
  const names = tenants.map((one) => cut(one.name)), at_least = (value) => Math.max(value ?? 0, 1);
  const trace = (name, key, wanted) => ({
    type: 'bar', name, x: names, y: tenants.map((one) => (one[key] === null ? null : at_least(one[key]))), customdata: tenants.map((one) => duration(one[key])),
    meta: { tone: wanted }, hovertemplate: '%{customdata}',
  });
  const most = Math.max(...tenants.map((one) => one.wait_p95_s ?? 0), 10);
  const ticks = TICKS.filter(([at]) => at <= most * 3);
  return {
    data: [trace('half wait at most', 'wait_p50_s', 't7'), trace('95 % wait at most', 'wait_p95_s', 't4')],
    layout: {
      barmode: 'group', bargap: 0.35, xaxis: { type: 'category', fixedrange: true }, hovermode: 'x unified', showlegend: true,
      yaxis: { type: 'log', range: [0, Math.log10(most * 1.4)], tickvals: ticks.map((one) => one[0]), ticktext: ticks.map((one) => one[1]), automargin: true, fixedrange: true },
    },
  };
};

const shares = (tenants) => {
  const names = tenants.map((one) => cut(one.name));
  const trace = (name, key, wanted) => ({ type: 'bar', name, x: names, y: tenants.map((one) => one[key]), meta: { tone: wanted }, hovertemplate: '%{y:.1%}' });
  return {
    data: [trace('fair share', 'fair_share', 't9'), trace('share it had', 'share', 't2')],
    layout: { barmode: 'group', bargap: 0.35, xaxis: { type: 'category', fixedrange: true }, yaxis: { tickformat: '.0%', rangemode: 'tozero', fixedrange: true, nticks: 6 }, hovermode: 'x unified', showlegend: true },
  };
};

const overTime = (now, values, wanted, unit, kind) => ({
  data: [kind === 'bar'
    ? { type: 'bar', x: dates(now.time_s), y: values, meta: { tone: wanted }, hovertemplate: `%{y:,.1f} ${unit}<extra></extra>` }
    : { type: 'scatter', mode: 'lines', x: dates(now.time_s), y: values, fill: 'tozeroy', meta: { tone: wanted, fill: '2e' }, line: { shape: 'hv', width: 1.8 }, hovertemplate: `%{y:,.1f} ${unit}<extra></extra>` }],
  layout: { xaxis: timeAxis(), yaxis: { rangemode: 'tozero', fixedrange: true, nticks: 5 }, hovermode: 'x', bargap: 0.1, showlegend: false },
});

const usageSentence = (now) => {
  const held = mean(now.allocated), computed = mean(now.computing);
  const lost = held > 0 ? 1 - computed / held : 0;
  return `On average ${percent(held / now.gpus)} of ${count(now.gpus, 'GPU')} were allocated and ${percent(computed / now.gpus)} computed`
    + (lost >= 0.005 ? `; ${percent(lost, 1)} of what was held went into starting and moving jobs.` : '.');
};
const waitSentence = (tenants) => {
  const known = tenants.filter((one) => one.wait_p95_s !== null);
  if (!known.length) return 'No job has started in this time.';
  const worst = known.reduce((a, b) => (b.wait_p95_s > a.wait_p95_s ? b : a));
  return `From submission to the first start, of jobs that started in this time. Longest for ${worst.name}: 1 in 20 of its jobs waited more than ${duration(worst.wait_p95_s)}.`;
};
const shareSentence = (tenants) => {
  const known = tenants.filter((one) => one.share !== null);
  if (!known.length) return 'Nobody has used anything in this time.';
  const off = known.reduce((a, b) => (Math.abs(b.share - b.fair_share) > Math.abs(a.share - a.fair_share) ? b : a));
  return `GPU time by tenant, beside what its weight would give it. Furthest off: ${off.name} with ${percent(off.share)} for ${percent(off.fair_share)}.`;
};
const pendingSentence = (now, total) => {
  if (!total) return 'Nobody waits.';
  const [name, number_] = Object.entries(now.pending).sort((a, b) => b[1] - a[1])[0];
  return `${count(total, 'job waits', 'jobs wait')} now, most of them (${number(number_)}) because: ${REASONS[name].charAt(0).toLowerCase()}${REASONS[name].slice(1)}.`;
};

export default {
  path: '/',
  title: 'Overview',
  nav: { label: 'Overview', icon: 'overview' },
  mount: (root, { query, signal }) => {
    let span = query.get('span') in SPANS ? query.get('span') : '6h';
    const buttons = Object.keys(SPANS).map((name) => h('button', { type: 'button', 'aria-pressed': String(name === span), onclick: () => choose(name) }, SPANS[name]));
    const tiles = h('dl.tiles');
    const used = card('GPUs allocated and computing', 'GPUs that jobs held, and GPUs whose jobs ran, over time', signal, 'tall', true);
    const why = card('Why jobs wait', 'Jobs that wait now, by reason', signal, 'normal');
    const queue = card('Jobs waiting', 'Jobs that waited, over time', signal, 'normal');
    const wait = card('Waiting time by tenant', 'Median and 95th percentile of waiting time, by tenant', signal, 'normal');
    const share = card('Fair share and actual share', 'Share of GPU time by weight and as it was, by tenant', signal, 'normal');
    const stops = card('Preemptions', 'Suspensions by the policy an hour, over time', signal, 'short');
    const broken = card('Fragmentation', 'Free GPUs on nodes that were partly used, over time', signal, 'short');
    const said = h('p');
    const choose = (name) => {
      span = name;
      buttons.forEach((button, i) => setAttribute(button, 'aria-pressed', String(Object.keys(SPANS)[i] === span)));
      rememberQuery({ span: span === '6h' ? '' : span });
      turn += 1;
      again();
    };
    root.append(
      h('div.pagehead', {}, h('div', {}, h('h1', {}, 'Overview'), said), h('div.end', {}, h('span.soft', { id: 'span' }, 'The last'), h('div.segments', { role: 'group', 'aria-labelledby': 'span' }, buttons))),
      tiles,
      h('div.charts', {}, used.element, why.element, queue.element, wait.element, share.element, stops.element, broken.element),
      h('p.soft.footnote', {}, 'From the journal of starts, suspensions and ends. ', h('a', { href: link('/jobs', {}, { state: 'waiting' }) }, 'Jobs that wait'), ' each say why in full.'));

    const show = (now) => {
      const total = Object.values(now.pending).reduce((sum, one) => sum + one, 0);
      const held = now.tenants.reduce((sum, one) => sum + one.gpus_used, 0);
      setText(said, `${count(now.started, 'job')} started and ${number(now.ended)} ended in the last ${duration(now.until_s - now.from_s)}.`);
      const figures = [
        ['GPUs allocated', number(Math.round(mean(now.allocated))), `of ${number(now.gpus)}, on average`],
        ['Allocated now', percent(now.gpus ? held / now.gpus : 0), `${number(Math.round(held))} GPUs`],
        ['Jobs waiting', number(total), 'now'],
        ['Preemptions', number(Math.round(now.suspensions_mean_per_h * 10) / 10), 'an hour'],
        ['Free GPUs', number(now.free_gpus), now.free_gpus ? `${number(now.largest_free)} at most on one node` : 'none'],
        ['Fragmentation', now.free_gpus ? percent(now.free_broken / now.free_gpus) : NOTHING, 'of free GPUs are on partly used nodes'],
      ];
      keyed(tiles, figures, (one) => one[0], (one) => h('div.tile', {}, h('dt', {}, one[0]), h('dd', {}, h('span'), ' ', h('small'))), (element, one) => {
        setText(element.lastChild.firstChild, one[1]);
        setText(element.lastChild.lastChild, one[2]);
      });
      setText(used.sentence, usageSentence(now));
      setText(why.sentence, pendingSentence(now, total));
      setText(queue.sentence, `On average ${number(Math.round(mean(now.waiting) * 10) / 10)} waited, at most ${number(now.waiting_most)}.`);
      setText(wait.sentence, waitSentence(now.tenants));
      setText(share.sentence, shareSentence(now.tenants));
      setText(stops.sentence, `${count(now.suspensions, 'suspension')} by the policy, for ${count(now.started, 'first start')}.`);
      setText(broken.sentence, `On average ${count(Math.round(mean(now.broken) * 10) / 10, 'free GPU')} could not serve a job that wants whole nodes.`);
      const reasons = Object.entries(now.pending);
      return Promise.all([
        used.draw(usage(now)),
        why.draw(bars(reasons.map(([name]) => REASONS[name]), reasons.map(([, many]) => many), 't10', reasons.map(([, many]) => number(many)))),
        queue.draw(overTime(now, now.waiting, 't10', 'jobs', 'area')),
        wait.draw(waits(now.tenants)), share.draw(shares(now.tenants)),
        stops.draw(overTime(now, now.suspensions_per_h, 't4', 'an hour', 'bar')), broken.draw(overTime(now, now.broken, 't3', 'GPUs', 'area')),
      ]);
    };
    let turn = 0;
    const ask = async () => {
      const mine = turn;
      const now = await get('/v1/overview', { span }, signal);
      if (mine !== turn) return null; // another span was chosen meanwhile
      await show(now);
      root.dataset.shown = 'true';
      return now.last_event;
    };
    const again = keepFresh(ask, signal, 4000);
  },
};
