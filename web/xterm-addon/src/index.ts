export { OutliveAddon } from './addon.js';
export type { ConnectOptions, Emulator, Notice, Options, State } from './types.js';
