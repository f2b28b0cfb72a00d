// Addresses like #/jobs/12?state=running: which page, with what. A page lives until its signal says that it is left.

const pages = [];

/**
 * A page: {path: '/jobs/:id', title, mount(root, {params, query, signal})}. `nav` with a label and an icon puts it into the
 * navigation; `may(me)` says for whom.
 */
export const addPage = (page) => pages.push(page);
export const allPages = () => pages;

const parse = () => {
  const [path, query = ''] = (location.hash.slice(1) || '/').split('?');
  return { path: path || '/', query: new URLSearchParams(query) };
};

const match = (pattern, path) => {
  const wanted = pattern.split('/'), given = path.split('/');
  if (wanted.length !== given.length) return null;
  const params = {};
  for (let i = 0; i < wanted.length; i++) {
    if (wanted[i].startsWith(':')) {
      try { params[wanted[i].slice(1)] = decodeURIComponent(given[i]); } catch { return null; }
    } else if (wanted[i] !== given[i]) return null;
  }
  return params;
};

/** The address of a page: `link('/jobs/:id', {id: '3_1'}, {tab: 'logs'})`. */
export const link = (pattern, params = {}, query = {}) => {
  const path = pattern.replace(/:(\w+)/g, (_, name) => encodeURIComponent(params[name]));
  const said = Object.entries(query).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  return `#${path}${said.length ? `?${new URLSearchParams(said)}` : ''}`;
};

/** Writes the query of the present page into the address without loading it anew, so that it can be shared and reloaded. */
export const rememberQuery = (query) => {
  const { path } = parse();
  history.replaceState(null, '', link(path, {}, query));
};

export const go = (address) => { location.hash = address.replace(/^#/, ''); };

/** Mounts pages into `root` as the address changes, until `signal`. `entered(page)` is told of each. */
export const route = (root, me, entered, signal) => {
  let leave = null;
  const enter = () => {
    leave?.abort();
    leave = new AbortController();
    const { path, query } = parse();
    for (const page of pages) {
      const params = match(page.path, path);
      if (params && (!page.may || page.may(me))) {
        document.title = `${typeof page.title === 'function' ? page.title(params) : page.title} · fairlead`;
        root.replaceChildren();
        root.scrollTop = 0;
        delete root.dataset.shown;
        entered(page);
        page.mount(root, { params, query, signal: leave.signal, me });
        return;
      }
    }
    document.title = 'Nothing here · fairlead';
    entered(null);
    const sentence = document.createElement('p');
    sentence.className = 'empty';
    sentence.textContent = 'There is nothing at this address.';
    root.replaceChildren(sentence);
  };
  addEventListener('hashchange', enter, { signal });
  signal.addEventListener('abort', () => leave?.abort());
  enter();
};
