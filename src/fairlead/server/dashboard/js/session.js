// Who is signed in. The token is kept for this tab alone, and goes nowhere but into the header of our own requests.
const KEY = 'fairlead-token';
let me = null;

export const token = () => {
  try { return sessionStorage.getItem(KEY) || ''; } catch { return ''; }
};

export const keep = (given) => sessionStorage.setItem(KEY, given);

export const forget = () => {
  me = null;
  try { sessionStorage.removeItem(KEY); } catch { /* there was none */ }
};

/** {user, role, tenant} of whoever is signed in. */
export const who = () => me;
export const isWho = (found) => { me = found; };

export const isAdmin = () => me?.role === 'admin';

/** Whether cancel, suspend and resume are offered. The API decides; this only spares people buttons that would be refused. */
export const mayControl = (job) => isAdmin() || (me?.role === 'user' && job.user === me.user);
export const mayReadLogs = (job) => mayControl(job);
