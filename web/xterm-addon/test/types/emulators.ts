// Compile-time check: the addon is accepted by the addon interface of each emulator.

import { OutliveAddon } from '@outlive/xterm-addon';
import { Terminal as Headless } from '@xterm/headless';
import { Terminal as Xterm } from '@xterm/xterm';
import { Terminal as Ghostty } from 'ghostty-web';

new Xterm().loadAddon(new OutliveAddon());
new Headless().loadAddon(new OutliveAddon());
new Ghostty().loadAddon(new OutliveAddon());
// ghostty-web's addon interface declares less than its terminal provides; `activate` checks the terminal itself.
new OutliveAddon().activate(new Xterm());
new OutliveAddon().activate(new Ghostty());
