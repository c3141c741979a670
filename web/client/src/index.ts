export { Attachment, type AttachItem, type AttachOptions } from './attach/attachment.js';
export type { EventFilter, OutliveEvent } from './events.js';
export type { ExecItem } from './exec_stream.js';
export type { Options, Socket, SocketClass } from './http.js';
export { Outlive } from './outlive.js';
export { OutliveError } from './problem.js';
export { Process } from './process.js';
export { Session } from './session.js';
export type * from './types.js';
