"""The features of a workspace: made in the order of the registry, given to its sessions, asked about what its folder brings."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path

from lmtui.app.folder_rules import rules_in_force
from lmtui.app.sandboxes import CurrentSandbox
from lmtui.config import Config
from lmtui.core.events import ModelChanged
from lmtui.core.offers import Offers
from lmtui.core.permissions.rules import Rule
from lmtui.core.ports import TokenCounter
from lmtui.core.prompt_parts import PromptSource
from lmtui.core.subagents import ChildKind
from lmtui.engine.session import EngineSession
from lmtui.features.folder_consent import FolderTrust
from lmtui.features.service import FeatureHost, SessionServices, Workspace, WorkspaceFeature
from lmtui.models.tokens import count_tokens
from lmtui.registry import features
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.registry import ToolRegistry
from lmtui.tools.tool import SessionToolbox, Told


class WorkspaceFeatures:
    """The features of one workspace; `extensions` is what its sessions and front ends get of them.

    Args:
        host: the workspace's host; for who only asks, one that opens no sessions.
    """

    def __init__(self, host: FeatureHost | Workspace) -> None:
        self.extensions = Offers()
        self._all: list[WorkspaceFeature] = [
            feature.load(feature.service)(host, self.extensions) for feature in features() if feature.service
        ]
        self._toolboxes: dict[str, SessionToolbox] = {}  # of sessions that are being opened
        self.trust = FolderTrust(*(trust for each in reversed(self._all) for trust in each.trust))

    def __iter__(self) -> Iterator[WorkspaceFeature]:
        return iter(self._all)

    def equip(self, session_id: str, config: Config, sandbox: WorkspaceSandbox, *, is_apart: bool) -> SessionServices:
        """Return what a session gets; one that `is_apart` gets nothing that acts outside its sandbox."""
        services = Offers(session_id)
        if (guide := self.extensions.get(PromptSource)) is not None:
            services.add(PromptSource, guide)
        session = SessionServices(session_id, config, services, is_apart=is_apart)
        for each in self._all:
            if each.works_apart or not is_apart:
                each.equip(session, sandbox)
        return session

    def toolbox(self, session_id: str, own: ToolRegistry) -> SessionToolbox:
        """Return the tools of a session."""
        brought = [tools for each in self._all for tools in each.tools(own)]
        self._toolboxes[session_id] = SessionToolbox(own, brought)
        return self._toolboxes[session_id]

    def child_toolbox(self, own: ToolRegistry, kind: ChildKind) -> SessionToolbox:
        """Return the tools of a sub-agent."""
        brought = [tools for each in self._all for tools in each.tools(own, kind)]
        return SessionToolbox(own, brought, is_begun=True)

    def follow(self, session: EngineSession, *, is_ours: bool) -> None:
        """Let the tools and the features of a session that was opened listen to it."""
        if (toolbox := self._toolboxes.pop(session.id, None)) is not None:
            for envelope in session.history():
                if isinstance(envelope.event, ModelChanged):  # for the window: no turn has begun yet
                    toolbox.follow(envelope)
            session.subscribe(toolbox.follow)
        for each in self._all:
            each.follow(session, is_ours=is_ours)

    def told(self) -> Mapping[str, Told]:
        """Return when the model learns of a tool, by its name, where a feature decides that."""
        return ChainMap(*({**each.told()} for each in self._all))

    def problems(self) -> tuple[str, ...]:
        """Return what of their files cannot be read, so that nobody can be asked about it.  Blocks."""
        return tuple(problem for each in reversed(self._all) for problem in each.problems())


class IdleWorkspace:
    """A workspace for who only asks; implements `features.service.Workspace`."""

    is_attended = True

    def __init__(self, workspace: Path, config: Config | None = None) -> None:
        self.workspace, self.config = workspace, config or Config()
        self.count_tokens: TokenCounter = count_tokens
        current = CurrentSandbox(lambda: (self.workspace, self.config))
        self.sandbox, self.aclose = current.get, current.close

    def rules(self) -> tuple[Rule, ...]:
        return rules_in_force(self.config, self.workspace)


def idle_features(workspace: Path) -> WorkspaceFeatures:
    """Return the features of a folder, for who asks about trust."""
    return WorkspaceFeatures(IdleWorkspace(workspace))
