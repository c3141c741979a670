// A page as somebody would write it for Cloudflare's sandboxes, with their own addon. Where its socket is stands after the # of its address.

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
