// Begins here: sign in, the frame around the pages, one live stream, and the pages themselves.
import { Problem, whenSignedOut, whoHas } from './api.js';
import { toast } from './dom.js';
import { follow, whenItFails } from './live.js';
import { route } from './router.js';
import { forget, isWho, token } from './session.js';
import { frame } from './shell.js';
import { signIn } from './signin.js';
import './pages.js';

const root = document.getElementById('app');
let ending = null;

const enter = (me) => {
  isWho(me);
  ending = new AbortController();
  const { signal } = ending;
  const { page, entered } = frame(root, me, leave, signal);
  follow(signal);
  route(page, me, entered, signal);
  document.documentElement.dataset.ready = 'true';
};

const leave = (why = '') => {
  ending?.abort();
  ending = null;
  forget();
  document.title = 'Sign in · fairlead';
  delete document.documentElement.dataset.ready;
  signIn(root, why).then(enter);
};

const begin = async () => {
  if (!token()) { leave(); return; }
  try {
    enter(await whoHas(token()));
  } catch (error) {
    leave(error.status === 401 ? 'Your token counts no more. Sign in again.' : error.message);
  }
};

whenSignedOut(() => { if (ending) leave('Your token counts no more. Sign in again.'); });

let lastFailure = '';
whenItFails((error) => {
  // what is not there any more is told by the page; a scheduler that does not answer, by the frame
  if (error instanceof Problem && (error.status === 0 || error.status === 401)) return;
  if (error.message !== lastFailure) toast(error.message, 'error');
  lastFailure = error.message;
});

document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  document.getElementById('main')?.focus();
});

begin();
