"""The context of a check: the SDK's adapters."""

import logging

from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.models.sandboxes import SandboxEndpoint
from opensandbox.sync.adapters.command_adapter import CommandsAdapterSync
from opensandbox.sync.adapters.health_adapter import HealthAdapterSync
from opensandbox.sync.adapters.metrics_adapter import MetricsAdapterSync

from runner import eventually

# The SDK logs every refusal that a check provokes.
logging.disable(logging.CRITICAL)


class Context:
    def __init__(self, base):
        self.base = base
        self.domain = f"{base.removeprefix('http://')}/opensandbox"
        self.config = ConnectionConfigSync(protocol="http").with_transport_if_missing()
        self.endpoint = SandboxEndpoint(endpoint=self.domain)
        self.clean_up_steps = []

    @property
    def commands(self):
        return CommandsAdapterSync(self.config, self.endpoint)

    @property
    def health(self):
        return HealthAdapterSync(self.config, self.endpoint)

    @property
    def metrics(self):
        return MetricsAdapterSync(self.config, self.endpoint)

    def run(self, command, **options):
        from opensandbox.models.execd import RunCommandOpts

        execution = self.commands.run(command, opts=RunCommandOpts(**options))
        assert execution.id, "every stream starts with an id"
        return execution

    def background(self, command, **options):
        execution = self.run(command, background=True, **options)
        self.clean_up_steps.append(lambda: self.commands.interrupt(execution.id))
        return execution.id

    def until_over(self, id):
        def probe():
            status = self.commands.get_command_status(id)
            assert status.running in (True, False)
            return None if status.running else status

        return eventually(f"the end of {id}", probe)

    def clean_up(self):
        for step in reversed(self.clean_up_steps):
            try:
                step()
            except Exception:
                pass  # It has ended, or the server is what is broken.
