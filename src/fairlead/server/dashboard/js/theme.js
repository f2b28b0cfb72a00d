// Light, dark, or as the machine has it. Whoever paints on a canvas asks `tone` and listens to `onTheme`.
const KEY = 'fairlead-theme';
const CHOICES = ['auto', 'light', 'dark'];
const machine = matchMedia('(prefers-color-scheme: dark)');
const told = new Set();

const stored = () => {
  try { return localStorage.getItem(KEY); } catch { return null; }
};

export const chosenTheme = () => (CHOICES.includes(stored()) ? stored() : 'auto');

const apply = () => {
  const chosen = chosenTheme();
  const dark = chosen === 'dark' || (chosen === 'auto' && machine.matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  told.forEach((tell) => tell());
};

export const nextTheme = () => {
  const next = CHOICES[(CHOICES.indexOf(chosenTheme()) + 1) % CHOICES.length];
  try { localStorage.setItem(KEY, next); } catch { /* it then lasts as long as the page */ }
  apply();
  return next;
};

export const onTheme = (tell, signal) => {
  told.add(tell);
  signal.addEventListener('abort', () => told.delete(tell));
};

/** A colour of the present theme by the name of its CSS variable. */
export const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

machine.addEventListener('change', apply);
