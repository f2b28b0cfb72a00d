// Jobs: filtered, sorted, searched and paged by the server. Rows keep their place and their element while they change.
import { get } from '../api.js';
import { h, keyed, setAttribute, setText } from '../dom.js';
import { count, duration, NOTHING, number, relative, timeFull } from '../format.js';
import { keepFresh, now_s, onCounts } from '../live.js';
import { link, rememberQuery } from '../router.js';

const STATES = {
  '': 'All states', live: 'Not ended', waiting: 'Waiting', running: 'Running', suspended: 'Suspended', held: 'Held', blocked: 'Blocked',
  done: 'Done', failed: 'Failed', cancelled: 'Cancelled', refused: 'Refused', lost: 'Lost',
};
const COLUMNS = [
  { title: 'Job', sort: 'submitted', first: 'descending' },
  { title: 'Name', sort: 'name' },
  { title: 'State', sort: 'state' },
  { title: 'GPUs', sort: 'gpus', number: true, first: 'descending' },
  { title: 'Tenant', sort: 'tenant' },
  { title: 'User', sort: 'user' },
  { title: 'Waited', number: true },
  { title: 'Ran', number: true },
  { title: 'Submitted', sort: 'submitted', first: 'descending' },
  { title: 'Ended', sort: 'finished', first: 'descending' },
];
const ROWS = 50;

/** How long it waited for its first start: up to then, to now, or to an end without one. */
const waited = (job, now) => (job.first_start_s ?? job.finished_s ?? now) - job.submit_s;

export default {
  path: '/jobs',
  title: 'Jobs',
  nav: { label: 'Jobs', icon: 'jobs' },
  mount: (root, { query, signal }) => {
    const asked = {
      search: query.get('search') || '', state: query.get('state') || '', tenant: query.get('tenant') || '',
      sort: query.get('sort') || 'submitted', descending: query.get('descending') !== 'false',
    };
    let cursors = [null], at = 0, next = null;

    const said = h('p', { role: 'status' });
    const search = h('input', { type: 'search', id: 'search', value: asked.search, placeholder: 'Part of a name, or an id', autocomplete: 'off' });
    const state = h('select', { id: 'state' }, Object.entries(STATES).map(([value, label]) => h('option', { value }, label)));
    state.value = asked.state in STATES ? asked.state : '';
    const tenant = h('select', { id: 'tenant' }, h('option', { value: '' }, 'All tenants'));
    const heads = COLUMNS.map((column) => h(`th${column.number ? '.number' : ''}`, { scope: 'col' },
      column.sort ? h('button', { type: 'button', onclick: () => sortBy(column) }, column.title) : column.title));
    const rows = h('tbody');
    const none = h('p.empty', { hidden: true });
    const where = h('span');
    const back = h('button', { type: 'button', onclick: () => turn(-1) }, 'Newer page');
    const on = h('button', { type: 'button', onclick: () => turn(1) }, 'Next page');
    setText(back, 'Previous page');

    const restart = () => {
      cursors = [null];
      at = 0;
      remember();
      askAnew();
    };
    const remember = () => rememberQuery({
      search: asked.search, state: asked.state, tenant: asked.tenant,
      sort: asked.sort === 'submitted' ? '' : asked.sort, descending: asked.descending ? '' : 'false',
    });
    const sortBy = (column) => {
      if (asked.sort === column.sort) asked.descending = !asked.descending;
      else Object.assign(asked, { sort: column.sort, descending: column.first === 'descending' });
      restart();
    };
    const turn = (by) => {
      if (by > 0 && !next) return; // where the page after the coming one begins is not known yet
      if (by > 0) cursors[at + 1] = next;
      at = Math.max(at + by, 0);
      askAnew();
    };
    let typing = 0;
    signal.addEventListener('abort', () => clearTimeout(typing));
    search.addEventListener('input', () => {
      clearTimeout(typing);
      typing = setTimeout(() => { asked.search = search.value.trim(); restart(); }, 250);
    });
    state.addEventListener('change', () => { asked.state = state.value; restart(); });
    tenant.addEventListener('change', () => { asked.tenant = tenant.value; restart(); });

    const update = (row, job) => {
      const now = now_s(), cells = row.children;
      setText(cells[0].firstChild, job.id);
      setText(cells[1], job.name || NOTHING);
      setAttribute(cells[1], 'title', job.name);
      setAttribute(cells[2].firstChild, 'data-state', job.state);
      setText(cells[2].firstChild, job.state);
      setAttribute(cells[2], 'title', job.message || null);
      setText(cells[3], number(job.gpus));
      setText(cells[4], job.tenant);
      setText(cells[5], job.user);
      setText(cells[6], duration(Math.max(waited(job, now), 0)));
      setText(cells[7], job.first_start_s === null ? NOTHING : duration(job.ran_s));
      setText(cells[8], relative(job.submit_s, now));
      setAttribute(cells[8], 'title', timeFull(job.submit_s));
      setText(cells[9], relative(job.finished_s, now));
      setAttribute(cells[9], 'title', timeFull(job.finished_s) || null);
    };
    const make = (job) => h('tr', {},
      h('td', {}, h('a', { href: link('/jobs/:id', { id: job.id }) }, job.id)), h('td.cut'), h('td', {}, h('span.state')),
      h('td.number'), h('td.cut'), h('td.cut'), h('td.number'), h('td.number'), h('td'), h('td'));

    let turnNumber = 0;
    const askAnew = () => {
      turnNumber += 1;
      next = null;
      again();
    };
    const ask = async () => {
      const mine = turnNumber;
      const page = await get('/v1/jobs', {
        name: asked.search, tenant: asked.tenant, sort: asked.sort, descending: asked.descending, limit: ROWS, cursor: cursors[at],
        ...(asked.state === 'live' ? { live: true } : { state: asked.state }),
      }, signal);
      if (mine !== turnNumber) return; // somebody has asked for something else meanwhile
      next = page.next;
      keyed(rows, page.jobs, (job) => job.id, make, update);
      none.hidden = page.jobs.length > 0;
      setText(none, asked.search || asked.state || asked.tenant ? 'No job is like this.' : 'No job has been submitted yet.');
      setText(where, page.jobs.length ? `${number(at * ROWS + 1)} to ${number(at * ROWS + page.jobs.length)}` : '');
      back.disabled = at === 0;
      on.disabled = !next;
      heads.forEach((head, i) => {
        const sorted = COLUMNS[i].sort === asked.sort && COLUMNS.findIndex((one) => one.sort === asked.sort) === i;
        setAttribute(head, 'aria-sort', sorted ? (asked.descending ? 'descending' : 'ascending') : COLUMNS[i].sort ? 'none' : null);
      });
      root.dataset.shown = 'true';
    };

    root.append(
      h('div.pagehead', {}, h('div', {}, h('h1', {}, 'Jobs'), said)),
      h('div.filters', { role: 'search' },
        h('div.field.grow', {}, h('label', { for: 'search' }, 'Search'), search),
        h('div.field', {}, h('label', { for: 'state' }, 'State'), state),
        h('div.field', {}, h('label', { for: 'tenant' }, 'Tenant'), tenant)),
      h('section.card.tablecard', { 'aria-label': 'Jobs' },
        h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'Jobs, one a row' },
          h('table.jobs', {}, h('thead', {}, h('tr', {}, heads)), rows), none),
        h('div.pager', {}, where, h('div.end', {}, back, on))));
    onCounts((now) => {
      if (!now) return;
      const total = Object.values(now.jobs).reduce((sum, one) => sum + one, 0);
      setText(said, `${count(total, 'job')} remembered: ${['running', 'waiting', 'suspended', 'done', 'failed']
        .filter((name) => now.jobs[name]).map((name) => `${number(now.jobs[name])} ${name}`).join(', ') || 'none'}`);
      const names = ['', ...Object.keys(now.tenants).sort()];
      if (asked.tenant && !names.includes(asked.tenant)) names.push(asked.tenant);
      keyed(tenant, names, (name) => name, (name) => h('option', { value: name }, name || 'All tenants'), () => {});
      if (tenant.value !== asked.tenant) tenant.value = asked.tenant;
    }, signal);
    const again = keepFresh(ask, signal);
  },
};
