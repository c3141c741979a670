import { Outlive, OutliveError } from '@outlive/client';
import './look/look.css';
import { readFragment } from './access/fragment.js';
import { gate } from './access/gate.js';
import { sharedTerminal } from './access/shared.js';
import { forgetToken, hideFragment, keepToken, takeToken } from './access/token.js';
import { Console } from './console.js';
import { Connection } from './live/connection.js';
import { followTheme } from './look/theme.js';
import { fill } from './page/element.js';
import { Notices } from './page/notices.js';

const root = document.querySelector('#console')!;
const notices = new Notices();
const connection = new Connection();

followTheme();
document.body.append(notices.element);
// A link that is opened while the console is: it is meant.
addEventListener('hashchange', () => {
  if (readFragment(location.hash).kind !== 'none') location.reload();
});

const given = readFragment(location.hash);
if (given.kind === 'ticket') {
  hideFragment();
  fill(root, sharedTerminal(given.ticket, given.process));
} else {
  const token = takeToken();
  enter(token).catch((error: unknown) => ask(token === undefined ? undefined : error));
}

function client(token: string | undefined): Outlive {
  return new Outlive({ fetch: connection.fetch, ...(token === undefined ? {} : { token }) });
}

/** Throws if the server does not let this token (or, without one, everybody) in. */
async function enter(token: string | undefined): Promise<void> {
  const outlive = client(token);
  await outlive.health();
  if (token !== undefined) keepToken(token);
  const over = new AbortController();
  const console = new Console(outlive, connection, notices, over.signal);
  fill(root, console.element);
  // What was open before a reload is known by its processes only when the list is there.
  const unfollow = console.processes.onChange(() => {
    if (!console.processes.isKnown) return;
    unfollow();
    console.workspace.restore();
    if (!console.workspace.isEmpty) console.showWork();
  });
  console.sessions.look().catch((error: unknown) => notices.failed(error));
  console.processes.follow(over.signal).catch((error: unknown) => {
    // Revoked or expired while we were here.
    if (!(error instanceof OutliveError) || error.status !== 401) return notices.failed(error);
    over.abort();
    ask(error);
  });
}

function ask(refusal: unknown): void {
  forgetToken();
  fill(root, gate(refusal, enter));
  root.querySelector('input')?.focus();
}
