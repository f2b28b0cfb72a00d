// The frame: navigation, how the cluster stands just now, who is signed in.
import { h, setAttribute, setText } from './dom.js';
import { count, number } from './format.js';
import { icon, mark } from './icons.js';
import { onCounts } from './live.js';
import { allPages } from './router.js';
import { chosenTheme, nextTheme } from './theme.js';

const THEMES = { auto: 'as the machine has it', light: 'light', dark: 'dark' };

/** Builds it into `root`; `page` is where pages go, `entered(page)` marks the one that is shown. */
export const frame = (root, me, leave, signal) => {
  const links = allPages().filter((page) => page.nav && (!page.may || page.may(me))).map((page) =>
    h('a.navlink', { href: `#${page.path}`, 'data-path': page.path }, icon(page.nav.icon), h('span', {}, page.nav.label)));
  const page = h('main.page', { id: 'main', tabindex: '-1' });
  const theme = h('button.plain', { type: 'button', onclick: () => sayTheme(nextTheme()) }, icon('theme'), h('span'));
  const sayTheme = (chosen) => {
    setText(theme.lastChild, `Theme: ${chosen}`);
    setAttribute(theme, 'aria-label', `Theme: ${THEMES[chosen]}. Change it`);
  };
  sayTheme(chosenTheme());
  const out = h('button.plain', { type: 'button', 'aria-label': 'Sign out', onclick: () => leave() }, icon('out'), h('span', {}, 'Sign out'));
  root.replaceChildren(h('div.frame', {},
    h('aside.rail', { 'aria-label': 'fairlead' },
      h('a.brand', { href: '#/', 'aria-label': 'fairlead, overview' }, mark(), h('span', {}, 'fairlead')),
      h('nav', { 'aria-label': 'Pages' }, links),
      h('div.who', {},
        h('p', {}, h('strong', { title: me.user }, me.user), h('span', { title: `tenant ${me.tenant}` }, `${me.role} · ${me.tenant}`)),
        theme, out)),
    h('div.body', {}, strip(signal), page)));
  return { page, entered: (shown) => mark_current(links, shown) };
};

const mark_current = (links, shown) => {
  const current = shown?.under || shown?.path;
  for (const one of links) setAttribute(one, 'aria-current', one.dataset.path === current ? 'page' : null);
};

const figure = (label, title) => {
  const value = h('b');
  const rest = h('span');
  return { element: h('div.fact', { title }, h('span.label', {}, label), h('span.value', {}, value, rest)), value, rest };
};

/** GPUs, jobs and the policy, always in sight. */
const strip = (signal) => {
  const gpus = figure('GPUs in use', 'GPUs that jobs hold, of all that there are');
  const running = figure('Running', 'jobs that hold GPUs');
  const waiting = figure('Waiting', 'jobs that wait for GPUs, for other jobs, or for somebody to resume them');
  const policy = figure('Policy', 'who runs, and where');
  const trouble = h('p.trouble', { role: 'alert', hidden: true });
  const state = h('span.livestate', { role: 'status' }, h('i', { 'aria-hidden': 'true' }), h('span', {}, 'connecting'));
  const bar = h('span.meter', { 'aria-hidden': 'true' }, h('i'));
  gpus.element.append(bar);
  onCounts((now, connected) => {
    setAttribute(state, 'data-live', String(connected));
    setText(state.lastChild, connected ? 'live' : 'reconnecting');
    if (!now) return;
    setText(gpus.value, number(now.gpus_used));
    setText(gpus.rest, ` / ${number(now.gpus)}`);
    bar.firstChild.style.setProperty('width', `${now.gpus ? (100 * now.gpus_used) / now.gpus : 0}%`);
    setText(running.value, number(now.jobs.running || 0));
    const waits = (now.jobs.waiting || 0) + (now.jobs.suspended || 0) + (now.jobs.blocked || 0) + (now.jobs.held || 0);
    setText(waiting.value, number(waits));
    const out = now.nodes - now.nodes_up;
    setText(policy.value, now.policy);
    setText(policy.rest, ` · ${now.placer}`);
    setText(trouble, now.trouble ? `The scheduler can’t decide at present: ${now.trouble}` :
      out ? `${count(out, 'node takes', 'nodes take')} no jobs at present.` : '');
    trouble.hidden = !trouble.textContent;
    trouble.classList.toggle('bad', Boolean(now.trouble));
  }, signal);
  return h('header.strip', {},
    h('div.facts', { role: 'group', 'aria-label': 'The cluster now', tabindex: '0' },
      gpus.element, running.element, waiting.element, policy.element, state), trouble);
};
