// The cluster as a map: every GPU, coloured by who has it or by what it does.
import { get } from '../api.js';
import { jobColour, namedColours, scale } from '../colours.js';
import { h, keyed, setAttribute, setText } from '../dom.js';
import { count, memory, number, percent } from '../format.js';
import { keepFresh } from '../live.js';
import { at, boxOf, layout, paint } from '../map.js';
import { link, rememberQuery } from '../router.js';
import { onTheme, tone } from '../theme.js';

const MODES = { job: 'Job', tenant: 'Tenant', utilization: 'Utilisation', memory: 'Memory' };
const LISTED = 60;

const memoryShare = (data, gpu) => {
  const used = data.memory_used_mib?.[gpu], free = data.memory_free_mib?.[gpu];
  return used === null || used === undefined || !(used + free) ? null : used / (used + free);
};

/** What each mode paints: the colour of a GPU, and how much of its square is filled. */
const painter = (mode, data) => {
  const held = (gpu) => Math.min(data.milli[gpu] / 1000, 1);
  if (mode === 'job') {
    const colours = data.jobs.map((job) => (job.id === null ? tone('strong-line') : jobColour(Number.parseInt(job.id, 10) || 0)));
    return { colour: (gpu) => colours[data.holder[gpu]], fill: held };
  }
  if (mode === 'tenant') {
    const named = namedColours([...new Set(data.jobs.map((job) => job.tenant))].sort());
    const colours = data.jobs.map((job) => named.get(job.tenant));
    return { colour: (gpu) => colours[data.holder[gpu]], fill: held, named };
  }
  const colours = scale();
  const share = mode === 'memory' ? (gpu) => memoryShare(data, gpu) : (gpu) => {
    const told = data.utilization_percent?.[gpu];
    return told === null || told === undefined ? null : told / 100;
  };
  return { colour: (gpu) => colours[Math.round(100 * Math.min(share(gpu) ?? 0, 1))], fill: (gpu) => (share(gpu) === null ? 0 : 1), share };
};

export default {
  path: '/cluster',
  title: 'Cluster',
  nav: { label: 'Cluster', icon: 'cluster' },
  mount: (root, { query, signal }) => {
    performance.mark('cluster-opened');
    let mode = query.get('by') in MODES ? query.get('by') : 'job';
    let data = null, map = null, paints = null, chosen = null, pinned = false, mapOf = '';

    const says = h('p', { role: 'status' });
    const buttons = Object.entries(MODES).map(([name, label]) =>
      h('button', { type: 'button', 'aria-pressed': String(name === mode), onclick: () => setMode(name) }, label));
    const canvas = h('canvas.map', {
      tabindex: '0', role: 'application', 'aria-label': 'Map of all GPUs. Arrow keys move from GPU to GPU, Enter opens what is there.',
      'aria-describedby': 'map-said',
    });
    const ring = h('div.ring', { hidden: true });
    const tip = h('div.tip', { hidden: true, id: 'map-said' });
    const legend = h('ul.legend');
    const unmeasured = h('p.soft', { hidden: true }, 'Nobody measures these GPUs: they are declared, or their driver does not tell.');
    const field = h('div.mapfield', {}, canvas, ring, tip);
    const filter = h('input', { type: 'search', id: 'node-filter', placeholder: 'Part of a node’s name, or its state', autocomplete: 'off' });
    const rows = h('tbody');
    const more = h('p.soft.tablenote');

    const setMode = (name) => {
      mode = name;
      buttons.forEach((button, i) => setAttribute(button, 'aria-pressed', String(Object.keys(MODES)[i] === mode)));
      rememberQuery({ by: mode === 'job' ? '' : mode });
      draw();
    };

    // -- drawing --------------------------------------------------------------------------------------------------------------
    const place = () => {
      const width = Math.max(field.clientWidth, 200);
      const key = `${width} ${innerHeight} ${data.nodes.length} ${data.nodes[0]?.name}`;
      if (key !== mapOf) {
        map = layout(data.nodes, width, Math.max(innerHeight - 330, 360));
        mapOf = key;
      }
    };
    const draw = () => {
      if (!data || signal.aborted) return;
      place();
      paints = painter(mode, data);
      const tones = {
        text: tone('text'), soft: tone('soft'), sunk: tone('sunk'), free: tone('free'), down: tone('down'), drained: tone('s-waiting'), bad: tone('s-failed'),
      };
      paint(canvas, map, data.nodes, paints.colour, paints.fill, tones, getComputedStyle(document.body).fontFamily);
      unmeasured.hidden = !((mode === 'utilization' && !data.utilization_percent) || (mode === 'memory' && !data.memory_used_mib));
      drawLegend();
      if (!canvas.dataset.drawn) {
        canvas.dataset.drawn = 'true';
        performance.mark('cluster-drawn');
      }
      if (chosen) show(chosen, false);
    };
    const drawLegend = () => {
      let items = [];
      if (mode === 'tenant') items = [...paints.named].map(([name, colour]) => ({ key: name, colour, text: name }));
      else if (mode === 'job') {
        const held = new Map();
        data.holder.forEach((job) => { if (job >= 0) held.set(job, (held.get(job) || 0) + 1); });
        items = [...held].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 8).map(([job, gpus]) => {
          const one = data.jobs[job];
          const colour = one.id === null ? tone('strong-line') : jobColour(Number.parseInt(one.id, 10) || 0);
          return { key: one.id ?? `of ${one.tenant}`, colour, text: `${one.id === null ? `jobs of ${one.tenant}` : one.name || one.id}, ${number(gpus)}`, id: one.id };
        });
      } else {
        const colours = scale();
        items = [0, 25, 50, 75, 100].map((at_) => ({ key: `p${at_}`, colour: colours[at_], text: `${at_} %` }));
      }
      items.push({ key: '-free', colour: tone('free'), text: mode === 'job' || mode === 'tenant' ? 'free' : 'not measured' });
      if (data.nodes.some((node) => node.state !== 'up')) items.push({ key: '-closed', colour: tone('down'), text: 'takes no jobs' });
      keyed(legend, items, (item) => item.key, (item) => h('li', {}, h('i.swatch'), item.id ? h('a', { href: link('/jobs/:id', { id: item.id }) }) : h('span')),
        (element, item) => {
          element.firstChild.style.setProperty('background', item.colour);
          setText(element.lastChild, item.text);
        });
    };

    // -- pointing and keys ------------------------------------------------------------------------------------------------------
    const show = (what, announce) => {
      const { node: i, gpu } = what, node = data.nodes[i];
      if (!node) return;
      const box = boxOf(map, i, gpu);
      ring.hidden = tip.hidden = false;
      for (const [name, value] of [['left', box.x - 3], ['top', box.y - 3], ['width', box.width + 6], ['height', box.height + 6]]) {
        ring.style.setProperty(name, `${value}px`);
      }
      const lines = [h('strong', {}, h('a', { href: link('/nodes/:name', { name: node.name }) }, node.name), gpu >= 0 ? ` · GPU ${gpu}` : '')];
      if (gpu >= 0) {
        const global = map.first[i] + gpu;
        const own = data.shared[global] ?? (data.holder[global] >= 0 ? [data.holder[global]] : []);
        for (const job of own.map((one) => data.jobs[one])) {
          lines.push(h('span', {}, job.id === null ? `a job of ${job.tenant}` : h('a', { href: link('/jobs/:id', { id: job.id }) }, job.name || `job ${job.id}`),
            job.id === null ? '' : ` · ${job.tenant}`));
        }
        if (!own.length) lines.push(h('span', {}, 'free'));
        if (data.milli[global] > 0 && data.milli[global] < 1000) lines.push(h('span', {}, `${data.milli[global] / 10} % of it is held`));
        const util = data.utilization_percent?.[global], share = memoryShare(data, global);
        if (util !== null && util !== undefined) lines.push(h('span', {}, `${number(util)} % busy`));
        if (share !== null) lines.push(h('span', {}, `${memory(data.memory_used_mib[global])} of memory, ${percent(share)}`));
      } else lines.push(h('span', {}, count(node.gpus, 'GPU')));
      if (node.state !== 'up') lines.push(h('span.bad', {}, node.state === 'drained' ? 'drained: starts nothing more' : 'down'));
      // a line that says the same stays, and with it the focus on its link
      lines.forEach((line, nth) => {
        const was = tip.children[nth];
        if (!was) tip.append(line);
        else if (!was.isEqualNode(line)) was.replaceWith(line);
      });
      while (tip.children.length > lines.length) tip.lastElementChild.remove();
      tip.classList.toggle('pinned', pinned);
      const below = box.y + box.height + tip.offsetHeight + 20 < map.height || box.y < tip.offsetHeight + 12;
      tip.style.setProperty('left', `${Math.max(Math.min(box.x, map.width - tip.offsetWidth - 4), 0)}px`);
      tip.style.setProperty('top', `${below ? box.y + box.height + 8 : box.y - tip.offsetHeight - 8}px`);
      if (announce) setAttribute(tip, 'aria-live', 'polite');
    };
    const hide = () => { chosen = null; pinned = false; ring.hidden = tip.hidden = true; };
    const pointAt = (event) => {
      if (!map || !data) return null;
      const box = canvas.getBoundingClientRect();
      return at(map, data.nodes, event.clientX - box.left, event.clientY - box.top);
    };
    canvas.addEventListener('pointermove', (event) => {
      if (pinned) return;
      const found = pointAt(event);
      if (!found) hide();
      else if (found.node !== chosen?.node || found.gpu !== chosen?.gpu) { chosen = found; show(found, false); }
    });
    canvas.addEventListener('pointerleave', () => { if (!pinned) hide(); });
    canvas.addEventListener('click', (event) => {
      const found = pointAt(event);
      if (!found) { hide(); return; }
      chosen = found;
      pinned = true;
      show(found, true);
    });
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') { hide(); canvas.focus(); return; }
      if (event.target !== canvas || !data || !map) return;
      const total = map.first.at(-1);
      const now = chosen ? map.first[chosen.node] + Math.max(chosen.gpu, 0) : -1;
      const columns = map.places[chosen?.node ?? 0]?.columns || 1;
      const to = { ArrowRight: now + 1, ArrowLeft: now - 1, ArrowDown: now + columns, ArrowUp: now - columns, Home: 0, End: total - 1 }[event.key];
      if (to !== undefined) {
        event.preventDefault();
        const gpu = Math.max(Math.min(to, total - 1), 0);
        let i = 0;
        while (map.first[i + 1] <= gpu) i += 1;
        chosen = { node: i, gpu: gpu - map.first[i] };
        pinned = true;
        show(chosen, true);
      } else if (event.key === 'Enter' && chosen) {
        event.preventDefault();
        (tip.querySelectorAll('a')[1] || tip.querySelector('a'))?.click();
      }
    });

    // -- the same as a list -----------------------------------------------------------------------------------------------------
    const list = () => {
      if (!data || !map) return;
      const wanted = filter.value.trim().toLowerCase();
      const found = [];
      let matching = 0;
      data.nodes.forEach((node, i) => {
        if (wanted && !`${node.name} ${node.state} ${node.path.join(' ')} ${node.gpu_type}`.toLowerCase().includes(wanted)) return;
        matching += 1;
        if (found.length < LISTED) found.push({ node, i });
      });
      keyed(rows, found, ({ node }) => node.name, ({ node }) => h('tr', {},
        h('td', {}, h('a', { href: link('/nodes/:name', { name: node.name }) }, node.name)), h('td', {}, h('span.state')),
        h('td.number'), h('td', {}, node.gpu_type || '–'), h('td', {}, node.path.join(' / ') || '–')),
      (element, { node, i }) => {
        let used = 0;
        for (let g = map.first[i]; g < map.first[i + 1]; g++) used += data.milli[g];
        setAttribute(element.children[1].firstChild, 'data-state', node.state);
        setText(element.children[1].firstChild, node.state);
        setText(element.children[2], `${number(used / 1000)} / ${number(node.gpus)}`);
      });
      setText(more, matching > found.length ? `${number(found.length)} of ${count(matching, 'node')}; search for others.` : '');
    };
    filter.addEventListener('input', list);

    root.append(
      h('div.pagehead', {}, h('div', {}, h('h1', {}, 'Cluster'), says),
        h('div.end', {}, h('span.soft', { id: 'by' }, 'Colour by'), h('div.segments', { role: 'group', 'aria-labelledby': 'by' }, buttons))),
      h('section.card.mapcard', { 'aria-label': 'Map' }, field, unmeasured, legend),
      h('section.card.tablecard', { 'aria-label': 'Nodes' },
        h('div.tablehead', {}, h('h2', {}, 'Nodes'), h('label.visually-hidden', { for: 'node-filter' }, 'Search nodes'), filter),
        h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'Nodes, one a row' },
          h('table', {}, h('thead', {}, h('tr', {}, ['Node', 'State', 'GPUs used', 'Type', 'In'].map((title, i) =>
            h(`th${i === 2 ? '.number' : ''}`, { scope: 'col' }, title)))), rows)), more));

    keepFresh(async () => {
      data = await get('/v1/gpus', {}, signal);
      const free = data.milli.reduce((sum, one) => sum + (one === 0 ? 1 : 0), 0);
      setText(says, `${count(data.nodes.length, 'node')}, ${count(data.milli.length, 'GPU')}, ${number(free)} free, ${count(data.jobs.filter((job) => job.id !== null).length, 'job')} to see`);
      draw();
      list();
      root.dataset.shown = 'true';
      return data.last_event;
    }, signal, 2500);
    onTheme(draw, signal);
    new ResizeObserver(() => draw()).observe(field);
  },
};
