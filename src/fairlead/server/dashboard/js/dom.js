// Making elements, and changing only what has changed: text that stays is not touched, rows keep their elements.

/** h('td.number', { title: 'GPUs' }, '8'). Text is always text: nothing that a job is called becomes HTML. */
export const h = (selector, attributes = {}, ...children) => {
  const [tag, ...classes] = selector.split('.');
  const element = document.createElement(tag || 'div');
  if (classes.length) element.className = classes.join(' ');
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};

const SVG = 'http://www.w3.org/2000/svg';

/** The same for the shapes of SVG. */
export const s = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...children.flat());
  return element;
};

const set = (element, name, value) => {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
  else if (name === 'style') Object.entries(value).forEach(([key, one]) => element.style.setProperty(key, one));
  else if (name === 'hidden' || name === 'disabled' || name === 'checked') element[name] = Boolean(value);
  else element.setAttribute(name, value === true ? '' : String(value));
};

export const setText = (element, text) => {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
};

export const setAttribute = (element, name, value) => {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
};

/**
 * Keeps `parent`'s children in step with `items`: one element for each key, made once by `make(item)` and brought up to date by
 * `update(element, item)`. What stays keeps its element, and with it the focus and what is selected in it.
 */
export const keyed = (parent, items, key, make, update) => {
  const wanted = new Set(items.map((item) => String(key(item)))), had = new Map();
  // what goes, goes first: whatever stays below it is then where it belongs, and an element that is moved loses the focus
  for (const child of [...parent.children]) {
    const name = child.dataset.key;
    if (wanted.has(name) && !had.has(name)) had.set(name, child);
    else child.remove();
  }
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let element = had.get(name);
    had.delete(name);
    if (!element) {
      element = make(item);
      element.dataset.key = name;
    }
    update(element, item);
    if (element === at) at = at.nextElementSibling;
    else parent.insertBefore(element, at);
  }
};

const toasts = () => document.getElementById('toasts');

/** A sentence in the corner, which screen readers say. Errors stay until they are closed. */
export const toast = (text, kind = 'note') => {
  const close = h('button.plain', { type: 'button', 'aria-label': 'Close', onclick: () => box.remove() }, '×');
  const box = h(`div.toast.${kind}`, kind === 'error' ? { role: 'alert' } : {}, h('p', {}, text), close);
  toasts().append(box);
  if (kind !== 'error') setTimeout(() => box.remove(), 5000);
};
