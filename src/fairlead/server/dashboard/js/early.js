// Before anything is painted: the theme, so that nobody who prefers dark sees a flash of light.
(() => {
  'use strict';
  let chosen = 'auto';
  try { chosen = localStorage.getItem('fairlead-theme') || 'auto'; } catch { /* storage may be closed to us */ }
  const dark = chosen === 'dark' || (chosen === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
})();
