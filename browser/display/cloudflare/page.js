// A typical page for Cloudflare's sandboxes, with their own addon. The fragment of its address is the URL of the
// socket.

import { SandboxAddon } from '@cloudflare/sandbox/xterm';
import { Terminal } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';

const socket = decodeURIComponent(location.hash.slice(1));
const terminal = new Terminal({ cols: 100, rows: 30, allowProposedApi: true });
terminal.open(document.body.appendChild(document.createElement('main')));
globalThis.states = [];
const addon = new SandboxAddon({
  getWebSocketUrl: ({ sessionId }) => `${socket}&sessionId=${sessionId}`,
  onStateChange: (state, error) => globalThis.states.push(error ? `${state}: ${error.message}` : state),
});
terminal.loadAddon(addon);
addon.connect({ sandboxId: 'any', sessionId: 'in-a-page' });
globalThis.addon = addon;
