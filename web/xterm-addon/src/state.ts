import type { Role } from '@outlive/client';

export type State =
  | { name: 'disconnected' }
  | { name: 'connecting' }
  | { name: 'connected'; role: Role }
  /** Attempts go on by themselves. */
  | { name: 'reconnecting'; why: string }
  | { name: 'exited'; exitCode: number | null; signal?: string; exitReason: string }
  /** It was refused; nothing goes on by itself. */
  | { name: 'error'; error: Error };

/** Something that ends nothing, and that this user should know. */
export interface Notice {
  code: string;
  message: string;
}
