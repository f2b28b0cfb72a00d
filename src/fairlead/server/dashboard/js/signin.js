// The page before all others.
import { whoHas } from './api.js';
import { h, setText } from './dom.js';
import { keep } from './session.js';
import { mark } from './icons.js';

/** Shows the form in `root`; resolves with whoever signed in. `why`: what to say before anybody has tried. */
export const signIn = (root, why = '') => new Promise((resolve) => {
  const says = h('p.error', { role: 'alert', id: 'signin-error' });
  setText(says, why);
  const field = h('input', {
    id: 'token', name: 'token', type: 'password', autocomplete: 'current-password', spellcheck: 'false',
    autocapitalize: 'off', required: true, 'aria-describedby': 'signin-help signin-error',
  });
  const button = h('button.primary', { type: 'submit' }, 'Sign in');
  const attempt = async (event) => {
    event.preventDefault();
    const given = field.value.trim();
    if (!given) { setText(says, 'Enter a token.'); field.focus(); return; }
    if (!/^[\x21-\x7e]+$/.test(given)) { setText(says, 'This is no token: it has characters that no token has.'); return; }
    button.disabled = true;
    try {
      const me = await whoHas(given);
      keep(given);
      resolve(me);
    } catch (error) {
      setText(says, error.status === 401 ? 'This token is not known here, has expired or was revoked.' : error.message);
      field.select();
    }
    button.disabled = false;
  };
  root.replaceChildren(h('main.signin', { id: 'main' },
    h('form.card', { onsubmit: attempt, novalidate: true },
      h('div.brand', {}, mark(), h('h1', {}, 'fairlead')),
      h('p.lead', {}, 'A scheduler for deep-learning work on GPU clusters.'),
      h('label', { for: 'token' }, 'Your token'),
      field,
      says,
      button,
      h('div.help', { id: 'signin-help' },
        h('p', {}, 'Whoever started the scheduler finds one in ', h('code', {}, '~/.local/state/fairlead/token'), '. ',
          'An administrator makes one for you with ', h('code', {}, 'fairlead tokens create --user NAME'), '.'),
        h('p', {}, 'It is kept for this tab, until you sign out or close it.')),
    )));
  field.focus();
});
