export { OutliveAddon } from './addon.js';
export type { Emulator } from './emulator.js';
export type { ConnectOptions, Options } from './options.js';
export type { Notice, State } from './state.js';
