import { Outlive, OutliveError } from '@outlive/client';
import './styles/index.css';
import { clearFragment, forgetToken, readFragment, storeToken, takeToken } from './access/credentials.js';
import { sharedTerminal } from './access/shared_terminal.js';
import { signInPage } from './access/sign_in.js';
import { Console } from './console.js';
import { fill } from './page/element.js';
import { Notices } from './page/notices.js';
import { Connection } from './state/connection.js';
import { followEvents } from './state/follow_events.js';
import { initTheme } from './styles/theme.js';

const root = document.querySelector('#console')!;
const notices = new Notices();
const connection = new Connection();

initTheme();
document.body.append(notices.element);
// A link with credentials, opened in the tab that shows the console, only changes the fragment.
addEventListener('hashchange', () => {
  if (readFragment(location.hash).kind !== 'none') location.reload();
});

const fragment = readFragment(location.hash);
if (fragment.kind === 'ticket') {
  clearFragment();
  fill(root, sharedTerminal(fragment));
} else {
  const token = takeToken();
  openConsole(token).catch((error: unknown) => askForToken(token === undefined ? undefined : error));
}

/** Rejects if the server does not accept the token, or requires one and none is given. */
async function openConsole(token: string | undefined): Promise<void> {
  const outlive = new Outlive({ fetch: connection.fetch, ...(token === undefined ? {} : { token }) });
  await outlive.health();
  if (token !== undefined) storeToken(token);
  const closed = new AbortController();
  const console = new Console(outlive, connection, notices, closed.signal);
  fill(root, console.element);
  // The saved layout can only be restored when the list of processes has been read.
  const unsubscribe = console.processes.onChange(() => {
    if (!console.processes.isLoaded) return;
    unsubscribe();
    console.workspace.restore();
    if (!console.workspace.isEmpty) console.showWorkspace();
  });
  followEvents(outlive, console.processes, console.sessions, closed.signal).catch((error: unknown) => {
    const isSignedOut = error instanceof OutliveError && error.status === 401;
    if (!isSignedOut) return notices.showError(error);
    // The token was revoked or has expired.
    closed.abort();
    askForToken(error);
  });
}

function askForToken(error: unknown): void {
  forgetToken();
  fill(root, signInPage(error, openConsole));
  root.querySelector('input')?.focus();
}
