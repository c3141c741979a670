/** Names for the schemas of the server's OpenAPI document; `npm run types` generates openapi.ts. */

import type { components } from './openapi.js';

type Schemas = components['schemas'];

export type ProcessInfo = Schemas['ProcessInfo'];
export type StartOptions = Schemas['CreateRequest'];
export type RunOptions = Schemas['RunRequest'];
export type RunResult = Schemas['RunResponse'];
export type WaitOptions = Schemas['WaitRequest'];
export type WaitResult = Schemas['WaitResponse'];
export type LogEntry = Schemas['LogEntry'];
export type SessionOptions = Schemas['SessionSpec'];
export type SessionInfo = Schemas['SessionInfo'];
export type ExecOptions = Schemas['ExecRequest'];
/** The result of a finished command: its output fields are always present. */
export type ExecResult = Schemas['ExecResponse'] &
  Required<Pick<Schemas['ExecResponse'], 'stdout' | 'stderr' | 'truncated' | 'encoding'>>;
export type ExecInfo = Schemas['ExecInfo'];
export type AttachmentInfo = Schemas['AttachmentInfo'];
export type Screen = Schemas['Snapshot'];
export type Tree = Schemas['Tree'];
export type Patch = Schemas['Patch'];
export type Health = Schemas['Health'];
export type History = Schemas['HistoryInfo'];
export type Boot = Schemas['BootInfo'];
export type Size = Schemas['Size'];
export type Role = Schemas['Role'];
export type Ticket = Schemas['TicketAnswer'];
export type TicketInfo = Schemas['TicketInfo'];
export type Context = Schemas['Context'];
