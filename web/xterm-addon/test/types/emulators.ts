// Compiles if the addon is one, for each emulator.

import { OutliveAddon } from '@outlive/xterm-addon';
import { Terminal as Headless } from '@xterm/headless';
import { Terminal as Xterm } from '@xterm/xterm';
import { Terminal as Ghostty } from 'ghostty-web';

new Xterm().loadAddon(new OutliveAddon());
new Headless().loadAddon(new OutliveAddon());
new Ghostty().loadAddon(new OutliveAddon());
// ghostty-web tells addons less than there is: what is needed is there.
new OutliveAddon().activate(new Xterm());
new OutliveAddon().activate(new Ghostty());
