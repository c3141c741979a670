export { Attachment, type AttachItem, type AttachOptions } from './attach/attachment.js';
export { OutliveError } from './error.js';
export type { EventFilter, OutliveEvent, ProcessEvent, SessionEvent } from './events.js';
export type { Options, Socket, SocketClass } from './http.js';
export { Outlive } from './outlive.js';
export { Process } from './process.js';
export { type ExecItem, Session } from './session.js';
export type * from './types.js';
