import { type Boot, type Outlive, OutliveError } from '@outlive/client';
import type { Processes } from './processes.js';

/** The earlier boots in the history. Only admins may read them; for other tokens there are none. */
export class EarlierBoots {
  readonly #outlive: Outlive;
  readonly #processes: Processes;
  #boots: Boot[] = [];
  #isLoading = false;

  constructor(outlive: Outlive, processes: Processes) {
    this.#outlive = outlive;
    this.#processes = processes;
  }

  /** Newest first. */
  all(): Boot[] {
    return this.#boots;
  }

  /** Reads the list of boots. */
  async load(): Promise<void> {
    if (this.#isLoading) return;
    this.#isLoading = true;
    try {
      const { boots } = await this.#outlive.history();
      this.#boots = boots.filter(({ current }) => !current).reverse();
    } catch (error) {
      // A token without the scope `admin`, or a server without a history.
      if (!(error instanceof OutliveError) || ![403, 404].includes(error.status)) throw error;
      this.#boots = [];
    } finally {
      this.#isLoading = false;
    }
  }

  /** Reads the processes of a boot, newest first. From then on `Processes` knows them by id. */
  async loadProcesses(boot: string): Promise<string[]> {
    const processes = await this.#outlive.processes({ boot });
    this.#processes.addStored(processes);
    return processes.map(({ id }) => id).reverse();
  }
}
