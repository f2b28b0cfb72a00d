// One node: how it is, who is on it, what its GPUs say; admins drain it from here.
import { get, post } from '../api.js';
import { asked, confirmed } from '../confirm.js';
import { h, keyed, setAttribute, setText, toast } from '../dom.js';
import { count, memory, NOTHING, number, timeExact } from '../format.js';
import { keepFresh, now_s } from '../live.js';
import { link } from '../router.js';
import { isAdmin } from '../session.js';

const STATE = { up: 'up', drained: 'drained', down: 'down' };

const bar = (share, label) => {
  const element = h('span.bar', { role: 'img' }, h('i'));
  const text = h('span');
  setAttribute(element, 'aria-label', label);
  if (share !== null) element.firstChild.style.setProperty('width', `${Math.min(100 * share, 100)}%`);
  setText(text, label);
  return h('span.measured', {}, share === null ? null : element, text);
};

const replaceIfNew = (cell, key, make) => {
  if (cell.dataset.is === key) return;
  cell.dataset.is = key;
  cell.replaceChildren(...make());
};

export default {
  path: '/nodes/:name',
  under: '/cluster',
  title: ({ name }) => name,
  mount: (root, { params: { name }, signal }) => {
    const path = `/v1/nodes/${encodeURIComponent(name)}`;
    const state = h('span.state', { role: 'status' });
    const where = h('span');
    const why = h('p.notice', { hidden: true });
    const does = h('button', { type: 'button', hidden: true });
    const facts = h('dl.tiles');
    const rows = h('tbody');
    const jobs = h('p');
    const gone = h('p.empty', { role: 'alert', hidden: true });
    const main = h('div.column', { hidden: true }, facts,
      h('section.card', { 'aria-label': 'Jobs on it' }, h('h2', {}, 'Jobs on it'), jobs),
      h('section.card.tablecard', { 'aria-label': 'Its GPUs' }, h('div.tablehead', {}, h('h2', {}, 'Its GPUs')),
        h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'GPUs, one a row' },
          h('table', {}, h('thead', {}, h('tr', {}, ['GPU', 'Held by', 'Busy', 'Memory', 'Power', 'Temperature'].map((title, i) =>
            h(`th${i > 3 ? '.number' : ''}`, { scope: 'col' }, title)))), rows))));
    root.append(h('div.pagehead', {}, h('div', {}, h('p.crumb', {}, h('a', { href: '#/cluster' }, 'Cluster'), ` / ${name}`), h('h1', {}, name),
      h('p', {}, state, where)), h('div.end', {}, does)), why, gone, main);

    let node = null;
    does.addEventListener('click', async () => {
      const drains = node.state !== 'drained';
      const reason = drains
        ? await asked(`Drain ${name}? Jobs that run there run on; nothing more is started.`, 'Why, for people who wonder', 'Drain it', 'Leave it')
        : await confirmed(`Use ${name} again?`, 'Use it again', 'Leave it');
      if (reason === null) return;
      try {
        await post(`${path}/${drains ? 'drain' : 'undrain'}`, drains ? { reason } : {});
        toast(drains ? `${name} is drained.` : `${name} takes jobs again.`);
        again();
      } catch (error) {
        if (error.name !== 'AbortError') toast(error.message, 'error');
      }
    });

    const show = () => {
      const now = now_s();
      setAttribute(state, 'data-state', node.state);
      setText(state, STATE[node.state]);
      setText(where, node.path.length ? ` in ${node.path.join(' / ')}` : '');
      const drained = node.state === 'drained'
        ? `Drained by ${node.drained_by} at ${timeExact(node.drained_s, now)}${node.drain_reason ? `: ${node.drain_reason}` : ''}. It starts nothing more.` : '';
      const down = node.down_reason ? `It takes no jobs: ${node.down_reason}.` : '';
      why.hidden = !drained && !down;
      setText(why, [drained, down].filter(Boolean).join(' '));
      does.hidden = !isAdmin();
      setText(does, node.state === 'drained' ? 'Use it again' : 'Drain');
      const tiles = [
        ['GPUs in use', `${number(node.gpus_used)} / ${number(node.gpus)}`], ['Type', node.gpu_type || NOTHING], ['Jobs', number(node.running)],
        ['GPU memory', node.gpu_memory_mib ? `${memory(node.gpu_memory_mib)} each` : NOTHING], ['CPUs', node.cpus === null ? NOTHING : number(node.cpus)],
        ['Memory', memory(node.memory_mib)],
      ];
      keyed(facts, tiles, (tile) => tile[0], (tile) => h('div.tile', {}, h('dt', {}, tile[0]), h('dd')), (element, tile) => setText(element.lastChild, tile[1]));
      const hidden = node.running - node.jobs.length;
      replaceIfNew(jobs, JSON.stringify([node.jobs, hidden]), () => [
        ...node.jobs.flatMap((id, i) => [i ? ', ' : '', h('a', { href: link('/jobs/:id', { id }) }, id)]),
        hidden > 0 ? `${node.jobs.length ? ' and ' : ''}${count(hidden, 'job')} that you may not see` : node.jobs.length ? '' : 'None.',
      ]);
      keyed(rows, node.each, (gpu) => gpu.index, (gpu) => h('tr', {}, h('th', { scope: 'row' }, gpu.index), h('td'), h('td'), h('td'), h('td.number'), h('td.number')),
        (row, gpu) => {
          const cells = row.children;
          replaceIfNew(cells[1], JSON.stringify(gpu.holders), () => gpu.holders.length ? gpu.holders.flatMap((one, i) => [i ? ', ' : '',
            one.job === null ? `a job of ${one.tenant}` : h('a', { href: link('/jobs/:id', { id: one.job }) }, `job ${one.job}`),
            ` (${one.tenant}${one.milli < 1000 ? `, ${one.milli / 10} %` : ''})`]) : [h('span.soft', {}, 'free')]);
          const busy = gpu.utilization_percent, used = gpu.memory_used_mib, free = gpu.memory_free_mib;
          replaceIfNew(cells[2], `${busy}`, () => [bar(busy === null ? null : busy / 100, busy === null ? 'not measured' : `${number(busy)} %`)]);
          replaceIfNew(cells[3], `${used} ${free}`, () => [bar(used === null ? null : used / (used + free), used === null ? 'not measured' : memory(used))]);
          setText(cells[4], gpu.power_w === null ? NOTHING : `${number(gpu.power_w)} W`);
          setText(cells[5], gpu.temperature_c === null ? NOTHING : `${number(gpu.temperature_c)} °C`);
        });
      main.hidden = false;
      root.dataset.shown = 'true';
    };
    const again = keepFresh(async () => {
      try {
        node = await get(path, {}, signal);
      } catch (error) {
        if (error.status !== 404) throw error;
        gone.hidden = false;
        setText(gone, error.message);
        return;
      }
      show();
    }, signal);
  },
};
